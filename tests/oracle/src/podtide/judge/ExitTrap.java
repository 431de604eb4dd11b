package podtide.judge;

import java.security.Permission;
import java.util.function.IntConsumer;

/**
 * Keeps System.exit from ending the JVM while Spark runs: the store ends its process when a subscriber throws an
 * IllegalArgumentException. Java offers a security manager for this, and only until version 23.
 */
@SuppressWarnings({"removal", "deprecation"})
final class ExitTrap extends SecurityManager {
  private static volatile IntConsumer trap;

  private ExitTrap() {}

  static void install() {
    if (System.getSecurityManager() instanceof ExitTrap) {
      return;
    }
    try {
      System.setSecurityManager(new ExitTrap());
    } catch (UnsupportedOperationException e) {
      throw new IllegalStateException(
          "scenarios of the store need a JDK from 17 to 23: this one has no security manager, without which an "
              + "exit that Spark wants would end the judge", e);
    }
  }

  /** Runs Spark; an exit that it wants is told instead, and becomes a SecurityException where it was wanted. */
  static void during(IntConsumer told, Runnable run) {
    trap = told;
    try {
      run.run();
    } finally {
      trap = null;
    }
  }

  @Override
  public void checkExit(int code) {
    IntConsumer told = trap;
    if (told != null) {
      told.accept(code);
      throw new SecurityException("exit " + code);
    }
  }

  @Override
  public void checkPermission(Permission permission) {
    // everything but an exit is allowed
  }

  @Override
  public void checkPermission(Permission permission, Object context) {
    // everything but an exit is allowed
  }
}
