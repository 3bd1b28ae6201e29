// The picture as a file of its own: its styles inside, in light colours, on white.

export async function saveSvg(svg) {
  const copy = svg.cloneNode(true);
  const [wide, high] = svg.getAttribute("viewBox").split(" ").slice(2);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", wide);
  copy.setAttribute("height", high);
  for (const node of copy.querySelectorAll("[tabindex], [role]")) for (const name of ["tabindex", "role", "aria-roledescription"]) node.removeAttribute(name);
  for (const node of copy.querySelectorAll(".hit, .ring")) node.remove();
  const [plane, base] = await Promise.all(["plane", "base"].map(async (name) => (await fetch(`/static/${name}.css`)).text()));
  const light = base.slice(base.indexOf("--bg"), base.indexOf("}"));
  const style = `<style>svg { ${light} } ${plane}</style><rect width="100%" height="100%" fill="#fff"/>`;
  const text = new XMLSerializer().serializeToString(copy).replace(/^<svg[^>]*>/, (head) => head + style);
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  const link = Object.assign(document.createElement("a"), { href: address, download: "holdfast-round.svg" });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
