(() => {
  const form = document.querySelector("form");
  const findings = [...document.querySelectorAll("article")];
  const objects = new Set(findings.map((finding) => finding.parentElement));
  const files = new Set([...objects].map((object) => object.parentElement));
  const shown = document.querySelector("output");
  if (!form || !findings.length) return;
  const texts = new Map();
  const textOf = (finding) => {
    if (!texts.has(finding)) {
      const object = finding.parentElement;
      const name = object.querySelector("h3");
      const file = object.parentElement.firstElementChild;
      const text = [file, name, finding].map((part) => (part ? part.textContent : "")).join("\n");
      texts.set(finding, text.toLowerCase());
    }
    return texts.get(finding);
  };
  const filter = () => {
    const levels = new Set([...form.querySelectorAll("input:checked")].map((box) => box.value));
    const rule = form.elements.rule.value;
    const namespace = form.elements.namespace;
    const words = form.elements.text.value.toLowerCase();
    let count = 0;
    for (const finding of findings) {
      const is = levels.has(finding.querySelector("b").textContent)
        && (!rule || finding.querySelector("a").textContent === rule)
        && (!namespace || !namespace.selectedIndex || finding.parentElement.dataset.n === namespace.value)
        && (!words || textOf(finding).includes(words));
      finding.hidden = !is;
      count += is;
    }
    for (const object of objects) object.hidden = !object.querySelector("article:not([hidden])");
    for (const file of files) file.hidden = !file.querySelector("article:not([hidden])");
    shown.textContent = count.toLocaleString("en") + " of " + findings.length.toLocaleString("en") + " shown";
  };
  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  filter();
})();
