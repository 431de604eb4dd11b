package podtide.judge;

import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Reads and replaces members that Spark keeps private.
 *
 * <p>Scala compiles a private val into a field with an accessor of the same name; either may be missing, so a
 * member is looked up as a method without parameters first and as a field second, through the superclasses.
 * Lookups are remembered: a state line needs a handful of them after every tick.
 */
final class Hidden {
  private static final Map<String, AccessibleObject> FOUND = new ConcurrentHashMap<>();

  private Hidden() {}

  /** The value of a member, whether a method without parameters or a field. */
  static Object get(Object owner, String name) {
    AccessibleObject member =
        FOUND.computeIfAbsent(owner.getClass().getName() + "#" + name, key -> find(owner.getClass(), name));
    try {
      return member instanceof Method ? ((Method) member).invoke(owner) : ((Field) member).get(owner);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("cannot read " + name + " of " + owner.getClass(), e);
    }
  }

  /** Replaces a field, final or not. */
  static void set(Object owner, String name, Object value) {
    for (Class<?> c = owner.getClass(); c != null; c = c.getSuperclass()) {
      for (Field f : c.getDeclaredFields()) {
        if (f.getName().equals(name)) {
          try {
            f.setAccessible(true);
            f.set(owner, value);
            return;
          } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("cannot replace " + name + " of " + owner.getClass(), e);
          }
        }
      }
    }
    throw new IllegalStateException("no field " + name + " in " + owner.getClass());
  }

  /** Calls a method that takes one int. */
  static void call(Object owner, String name, int argument) {
    try {
      Method m = owner.getClass().getDeclaredMethod(name, int.class);
      m.setAccessible(true);
      m.invoke(owner, argument);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("cannot call " + name + " of " + owner.getClass(), e);
    }
  }

  private static AccessibleObject find(Class<?> start, String name) {
    for (Class<?> c = start; c != null; c = c.getSuperclass()) {
      for (Method m : c.getDeclaredMethods()) {
        if (m.getParameterCount() == 0 && m.getName().equals(name)) {
          m.setAccessible(true);
          return m;
        }
      }
      for (Field f : c.getDeclaredFields()) {
        if (f.getName().equals(name)) {
          f.setAccessible(true);
          return f;
        }
      }
    }
    throw new IllegalStateException("no member " + name + " in " + start + ": is this Spark 4.3?");
  }
}
