// The choice of a version in the header, where several lie beside one another (website/versions.py).
(() => {
  const root = new URL("..", document.currentScript.src);
  const script = document.createElement("script");
  script.src = new URL("../versions.js", root);
  script.onload = () => {
    const versions = window.lowwaterVersions;
    const own = decodeURIComponent(root.pathname).split("/").at(-2);
    if (Object.keys(versions).length < 2 || !(own in versions)) return;
    const page = decodeURIComponent(location.pathname.slice(root.pathname.length)) || "index.html";
    const choice = document.createElement("select");
    choice.className = "version";
    choice.setAttribute("aria-label", "Version");
    for (const version of Object.keys(versions)) choice.add(new Option(version, version, false, version === own));
    choice.onchange = () => {
      const there = versions[choice.value].includes(page) ? page : "index.html";
      location.href = new URL(`../${choice.value}/${there}`, root);
    };
    document.querySelector(".md-header__title").after(choice);
  };
  document.head.append(script);
})();
