function render({ model, el }) {
  const button = document.createElement("button");
  button.type = "button";
  button.style.cssText =
    "font:inherit;color:inherit;background:none;border:1px solid currentColor;" +
    "border-radius:4px;padding:2px 12px;margin:4px 0;cursor:pointer";
  const draw = () => {
    button.disabled = model.get("pressed");
    button.textContent = button.disabled ? "cancelling ..." : "Cancel the run";
    button.style.opacity = button.disabled ? 0.6 : 1;
  };
  button.addEventListener("click", () => {
    model.set("pressed", true);
    model.save_changes();
  });
  model.on("change:pressed", draw);
  draw();
  el.append(button);
}
export default { render };
