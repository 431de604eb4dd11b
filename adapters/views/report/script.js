(function () {
  "use strict";
  var page = document, root = page.documentElement;
  function all(selector, inside) { return Array.prototype.slice.call((inside || page).querySelectorAll(selector)); }

  // Themes: the system's, until somebody chooses.
  var button = page.getElementById("theme"), system = window.matchMedia("(prefers-color-scheme: dark)");
  function remembered(value) {
    try {
      if (value === undefined) { return window.localStorage.getItem("podtide-theme"); }
      window.localStorage.setItem("podtide-theme", value);
    } catch (refused) { return null; }
    return value;
  }
  function theme() { return root.dataset.theme || (system.matches ? "dark" : "light"); }
  function named() {
    button.textContent = theme() === "dark" ? "Light theme" : "Dark theme";
  }
  var kept = remembered();
  if (kept === "dark" || kept === "light") { root.dataset.theme = kept; }
  button.hidden = false;
  button.addEventListener("click", function () {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
    remembered(root.dataset.theme);
    named();
  });
  if (system.addEventListener) { system.addEventListener("change", named); }
  named();

  // One tooltip for everything.
  var tip = page.getElementById("tip");
  function show(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    var box = tip.getBoundingClientRect(), wide = root.clientWidth;
    var left = Math.max(8, Math.min(wide - box.width - 8, x - box.width / 2));
    var top = y - box.height - 14;
    if (top < 8) { top = y + 18; }
    tip.style.left = left + "px";
    tip.style.top = top + "px";
  }
  var again = null;
  function cool() { all(".hot").forEach(function (one) { one.classList.remove("hot"); }); }
  function hide() { tip.hidden = true; again = null; cool(); }
  function tell(mark) {
    var box = mark.getBoundingClientRect();
    cool();
    mark.classList.add("hot");
    show(mark.getAttribute("aria-label"), box.left + box.width / 2, box.top);
  }
  page.addEventListener("keydown", function (event) { if (event.key === "Escape") { hide(); } });
  // What has the focus keeps its words while the page moves; what was pointed at has moved away.
  window.addEventListener("scroll", function () { if (again) { again(); } else { hide(); } }, { passive: true });

  // Marks: one stop for the tab key, arrows from one to the next, the nearest under the pointer.
  all("[data-rove]").forEach(function (group) {
    var marks = all("[role=img]", group), order = marks.slice();
    function across(mark) { var box = mark.getBoundingClientRect(); return box.left + box.width / 2; }
    function sort() { order = marks.slice().sort(function (a, b) { return across(a) - across(b); }); }
    group.addEventListener("keydown", function (event) {
      sort();
      var at = order.indexOf(page.activeElement), to = at;
      if (event.key === "ArrowRight" || event.key === "ArrowDown") { to = at + 1; }
      else if (event.key === "ArrowLeft" || event.key === "ArrowUp") { to = at - 1; }
      else if (event.key === "Home") { to = 0; }
      else if (event.key === "End") { to = order.length - 1; }
      else { return; }
      event.preventDefault();
      var next = order[Math.max(0, Math.min(order.length - 1, to))];
      marks.forEach(function (one) { one.setAttribute("tabindex", one === next ? "0" : "-1"); });
      next.focus();
    });
    function nearest(event) {
      var best = null, least = Infinity;
      marks.forEach(function (mark) {
        var box = mark.getBoundingClientRect();
        var dx = Math.max(box.left - event.clientX, 0, event.clientX - box.right);
        var dy = Math.max(box.top - event.clientY, 0, event.clientY - box.bottom);
        var far = dx * dx + dy * dy;
        if (far < least) { least = far; best = mark; }
      });
      if (best && least < 400) { again = null; tell(best); } else { hide(); }
    }
    group.addEventListener("pointermove", nearest);
    group.addEventListener("pointerdown", nearest);
    group.addEventListener("pointerleave", hide);
  });

  // Not on the groups themselves: an SVG element that listens for focus becomes a stop of the tab key.
  function of_group(event) { return event.target.matches && event.target.matches("[data-rove] [role=img]"); }
  page.addEventListener("focusin", function (event) {
    if (of_group(event)) { tell(event.target); again = function () { tell(event.target); }; }
  });
  page.addEventListener("focusout", function (event) { if (of_group(event)) { hide(); } });

  // The moment under the cursor of a chart of executors.
  function two(number) { return (number < 10 ? "0" : "") + number; }
  function clock(seconds) {
    var tenths = seconds < 600 ? "." + Math.floor(seconds * 10 % 10) : "", whole = Math.floor(seconds);
    var days = Math.floor(whole / 86400), hours = Math.floor(whole / 3600) % 24, minutes = Math.floor(whole / 60) % 60;
    if (days) { return days + "d " + two(hours) + ":" + two(minutes) + ":" + two(whole % 60); }
    return (hours ? hours + ":" + two(minutes) : minutes) + ":" + two(whole % 60) + tenths;
  }
  all(".chart").forEach(function (chart) {
    var figures = JSON.parse(page.getElementById(chart.dataset.chart).textContent);
    var cursor = chart.querySelector(".cursor"), hair = chart.querySelector(".hair"), last = figures.t.length - 1, at = 0;
    cursor.hidden = false;
    cursor.setAttribute("aria-valuemax", String(last));
    function words(index) {
      return clock(figures.t[index]) + "\n" + figures.s.map(function (one) {
        return one[0] + " " + one[1][index].toLocaleString("en-US");
      }).join("\n");
    }
    function index_at(time) {
      var low = 0, high = last;
      while (low < high) {
        var middle = (low + high + 1) >> 1;
        if (figures.t[middle] <= time) { low = middle; } else { high = middle - 1; }
      }
      return low;
    }
    function put(index, place) {
      at = Math.max(0, Math.min(last, index));
      var box = cursor.getBoundingClientRect();
      var x = place === undefined ? box.width * figures.t[at] / figures.span : place;
      hair.style.left = x + "px";
      hair.classList.add("on");
      cursor.setAttribute("aria-valuenow", String(at));
      cursor.setAttribute("aria-valuetext", words(at).split("\n").join(", "));
      show(words(at), box.left + x, box.top + 60);
      var aside = tip.getBoundingClientRect(), left = box.left + x + 16;
      if (left + aside.width > root.clientWidth - 8) { left = box.left + x - aside.width - 16; }
      tip.style.left = Math.max(8, left) + "px";
      tip.style.top = Math.max(8, box.top + 12) + "px";
    }
    function off() { hair.classList.remove("on"); hide(); }
    function follow(event) {
      var box = cursor.getBoundingClientRect(), x = Math.max(0, Math.min(box.width, event.clientX - box.left));
      again = null;
      put(index_at(figures.span * x / box.width), x);
    }
    function stay() { put(at); again = stay; }
    cursor.addEventListener("pointermove", follow);
    cursor.addEventListener("pointerdown", follow);
    cursor.addEventListener("pointerleave", off);
    cursor.addEventListener("focus", function () { if (cursor.matches(":focus-visible")) { stay(); } });
    cursor.addEventListener("blur", off);
    cursor.addEventListener("keydown", function (event) {
      var step = event.shiftKey ? 10 : 1;
      if (event.key === "ArrowRight" || event.key === "ArrowUp") { put(at + step); }
      else if (event.key === "ArrowLeft" || event.key === "ArrowDown") { put(at - step); }
      else if (event.key === "PageUp") { put(at + 10); }
      else if (event.key === "PageDown") { put(at - 10); }
      else if (event.key === "Home") { put(0); }
      else if (event.key === "End") { put(last); }
      else { return; }
      again = stay;
      event.preventDefault();
    });
    all("[data-series]", chart).forEach(function (key) {
      key.addEventListener("click", function () {
        var on = key.getAttribute("aria-pressed") !== "true";
        key.setAttribute("aria-pressed", String(on));
        all(".s-" + key.dataset.series, chart).forEach(function (path) { path.classList.toggle("off", !on); });
      });
    });
  });

  // Lines to paste.
  var status = page.getElementById("status");
  all("[data-copy]").forEach(function (copy) {
    var block = page.getElementById(copy.dataset.copy);
    copy.hidden = false;
    function done() { copy.textContent = "Copied"; status.textContent = "Copied to the clipboard"; }
    function select() {
      var range = page.createRange(), chosen = window.getSelection();
      range.selectNodeContents(block);
      chosen.removeAllRanges();
      chosen.addRange(range);
      try { if (page.execCommand("copy")) { done(); return; } } catch (refused) { /* selected at least */ }
      status.textContent = "Selected";
    }
    copy.addEventListener("click", function () {
      var text = block.textContent;
      if (navigator.clipboard && window.isSecureContext) { navigator.clipboard.writeText(text).then(done, select); }
      else { select(); }
    });
  });
})();
