document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});

// Leaderboards: a head sorts by its column, and again in the other direction; a ticked box hides rows without its word.
for (const table of document.querySelectorAll("table.board")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const value = (row, column) => {
    const text = row.cells[column].firstChild.textContent;
    return isNaN(parseFloat(text)) ? text : parseFloat(text);
  };
  const sort = (column) => {
    const up = heads[column].ariaSort === "descending";
    heads.forEach((head) => { head.ariaSort = null; });
    heads[column].ariaSort = up ? "ascending" : "descending";
    const order = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;
    const rows = [...body.rows].sort((a, b) => order(value(a, column), value(b, column)));
    body.append(...(up ? rows : rows.reverse()));
  };
  heads.forEach((head, column) => {
    head.addEventListener("click", () => sort(column));
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(column); });
  });
  const boxes = [...table.closest("section").querySelectorAll(".filters input")];
  const narrow = () => {
    const asked = boxes.filter((box) => box.checked).map((box) => box.value);
    for (const row of body.rows) row.hidden = !asked.every((word) => row.dataset.holds.split(" ").includes(word));
  };
  boxes.forEach((box) => box.addEventListener("change", narrow));
}
