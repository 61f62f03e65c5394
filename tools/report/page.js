// SPDX-License-Identifier: Apache-2.0
// Shows the values of a chart at the pointer, or at the slider that the keyboard moves. They come from its table.
"use strict";
for (const figure of document.querySelectorAll("figure.chart")) {
  const plot = figure.querySelector(".plot");
  const svg = plot.firstElementChild;
  const box = svg.viewBox.baseVal;
  const names = [...figure.querySelectorAll("thead th")].map((cell) => cell.textContent);
  const rows = [...figure.querySelectorAll("tbody tr")];
  const tip = plot.appendChild(document.createElement("div"));
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  const cursor = svg.appendChild(document.createElementNS(svg.namespaceURI, "path"));
  cursor.setAttribute("class", "cur");
  const slider = document.createElement("input");
  slider.type = "range";
  slider.className = "read";
  slider.min = 0;
  slider.max = rows.length - 1;
  slider.value = 0;
  slider.setAttribute("aria-label", "Read values: " + figure.querySelector("h3").textContent);
  plot.after(slider);
  const place = (row) => Number(row.dataset.x);

  const show = (index) => {
    const row = rows[index];
    const cells = [...row.cells].map((cell) => cell.textContent);
    tip.replaceChildren();
    const head = tip.appendChild(document.createElement("b"));
    head.textContent = names[0] + ": " + cells[0];
    for (let i = 1; i < cells.length; ++i)
      tip.appendChild(document.createElement("span")).textContent = names[i] + ": " + cells[i];
    tip.hidden = false;
    const share = place(row) / box.width;
    tip.style.left = share < 0.5 ? "calc(" + share * 100 + "% + .6rem)" : "auto";
    tip.style.right = share < 0.5 ? "auto" : "calc(" + (1 - share) * 100 + "% + .6rem)";
    cursor.setAttribute("d", "M" + place(row) + " 32V230");
    slider.value = index;
    slider.setAttribute("aria-valuetext", tip.innerText.replaceAll("\n", "; "));
  };
  const hide = () => {
    tip.hidden = true;
    cursor.removeAttribute("d");
  };
  const nearest = (event) => {
    const area = svg.getBoundingClientRect();
    const x = ((event.clientX - area.left) / area.width) * box.width;
    let best = 0;
    for (let i = 1; i < rows.length; ++i)
      if (Math.abs(place(rows[i]) - x) < Math.abs(place(rows[best]) - x)) best = i;
    return best;
  };
  svg.addEventListener("pointermove", (event) => show(nearest(event)));
  svg.addEventListener("pointerdown", (event) => show(nearest(event)));
  svg.addEventListener("pointerleave", hide);
  slider.addEventListener("focus", () => show(Number(slider.value)));
  slider.addEventListener("input", () => show(Number(slider.value)));
  slider.addEventListener("blur", hide);
}
