/** Dialogs: the browser's own, which keep the focus and give it back. */
import { html, useEffect, useRef, useState } from '../lib.js';
import { Trouble } from './panel.js';

/** A dialog with a form. `act` is called at its button, and closes it unless it throws. */
export function Dialog({ title, close, act, label, danger, ready = true, children, wide }) {
  const element = useRef();
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    const before = document.activeElement;
    element.current.showModal();
    return () => before?.isConnected && before.focus();
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    if (busy || !ready) return;
    setBusy(true);
    try {
      await act();
      close();
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return html`<dialog ref=${element} class=${wide ? 'dialog is-wide' : 'dialog'} aria-label=${title} onClose=${close}>
    <form onSubmit=${submit}>
      <header><h2>${title}</h2></header>
      <div class="dialog-body">${children} ${error && html`<${Trouble} error=${error} />`}</div>
      <footer>
        <button type="button" onClick=${() => element.current.close()}>${act ? 'Cancel' : 'Close'}</button>
        ${act && html`<button class=${danger ? 'primary danger' : 'primary'} disabled=${busy || !ready}>${label}</button>`}
      </footer>
    </form>
  </dialog>`;
}

/** A button that opens a dialog: `dialog` is called with a function that closes it. */
export function Opening({ label, kind = '', needs, dialog, title }) {
  const [open, setOpen] = useState(false);
  return html`<${Act} label=${label} kind=${kind} needs=${needs} title=${title} act=${() => setOpen(true)} />
    ${open && dialog(() => setOpen(false))}`;
}

/** A button; one that needs a tag which the user does not have says so, and does nothing. */
export function Act({ label, act, kind = '', needs, title }) {
  return html`<button type="button" class=${kind} title=${needs ? `needs tag ${needs}` : title}
    aria-disabled=${needs ? 'true' : undefined} onClick=${() => !needs && act()}>${label}</button>`;
}

export function Field({ label, hint, children }) {
  return html`<label class="field"><span class="field-label">${label}</span>${children}${hint && html`<span class="hint">${hint}</span>`}</label>`;
}

export function Choice({ name, value, options, choose, legend }) {
  return html`<fieldset class="choice"><legend>${legend}</legend>
    ${options.map(
      ([each, text]) => html`<label><input type="radio" name=${name} checked=${value === each} onChange=${() => choose(each)} />
        <span>${text}</span></label>`,
    )}
  </fieldset>`;
}
