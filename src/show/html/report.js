// Shows the buffer under the pointer below a map, and moves between buffers with the arrow keys. The page is complete without it.
"use strict";
for (const figure of document.querySelectorAll("figure.map")) {
  const readout = figure.nextElementSibling;
  const svg = figure.querySelector("svg");
  const boxes = Array.from(figure.querySelectorAll(".buffers rect"));
  if (!readout || boxes.length === 0) continue;
  let current = null;
  const show = (box) => {
    if (current) current.classList.remove("on");
    current = box;
    box.classList.add("on");
    readout.textContent = box.querySelector("title").textContent;
  };
  const isBox = (target) => target instanceof SVGRectElement && target.parentNode.classList.contains("buffers");
  for (const event of ["pointermove", "pointerdown"]) {
    svg.addEventListener(event, (e) => { if (isBox(e.target)) show(e.target); });
  }
  svg.setAttribute("tabindex", "0");
  svg.setAttribute("aria-describedby", readout.id = readout.id || "readout-" + Math.random().toString(36).slice(2));
  const middle = (box) => {
    const r = box.getBBox();
    return [r.x + r.width / 2, r.y + r.height / 2];
  };
  // The nearest box whose middle lies in the direction of the key.
  const nearest = (dx, dy) => {
    const [x, y] = middle(current);
    let best = null;
    let least = Infinity;
    for (const box of boxes) {
      if (box === current) continue;
      const [bx, by] = middle(box);
      const along = (bx - x) * dx + (by - y) * dy;
      const across = Math.abs((bx - x) * dy) + Math.abs((by - y) * dx);
      if (along > 0.01 && along + 3 * across < least) {
        least = along + 3 * across;
        best = box;
      }
    }
    return best;
  };
  const directions = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  svg.addEventListener("keydown", (e) => {
    const direction = directions[e.key];
    if (!direction) return;
    e.preventDefault();
    const next = current ? nearest(direction[0], direction[1]) : boxes[0];
    if (next) show(next);
  });
  svg.addEventListener("focus", () => { if (!current) show(boxes[0]); });
}
// Details are open in print.
addEventListener("beforeprint", () => { for (const d of document.querySelectorAll("details")) d.open = true; });
