/**
 * The few things that the page does with elements. Text gets in as text only, never as markup.
 *
 * @module
 */

/// <reference lib="dom" />
/// <reference lib="dom.iterable" />

/** The element with this id, of this class. @throws Error when the page has none */
export function part<T extends Element>(id: string, kind: new () => T): T {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no ${id}`);
  return found;
}

/** Makes an element with a class and a text or children. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className = "",
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  if (className !== "") element.className = className;
  element.append(...children);
  return element;
}

/** Makes an element of a drawing. */
export function draw(tag: string, attributes: Readonly<Record<string, string>>): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/** A button that says what it does to what. */
export function makeButton(text: string, label: string, act: () => void): HTMLButtonElement {
  const button = make("button", "", text);
  button.type = "button";
  button.setAttribute("aria-label", label);
  button.addEventListener("click", act);
  return button;
}

/** Sets a text only when it is another one, so that screen readers hear of changes alone. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Asks before a deed; resolves to whether it was confirmed. Escape is no. */
export function ask(title: string, text: string, verb: string): Promise<boolean> {
  const dialog = part("question", HTMLDialogElement);
  setText(part("question-title", HTMLElement), title);
  setText(part("question-text", HTMLElement), text);
  const yes = part("question-yes", HTMLButtonElement);
  setText(yes, verb);
  dialog.returnValue = "";
  yes.onclick = () => dialog.close("yes");
  part("question-no", HTMLButtonElement).onclick = () => dialog.close("");
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
