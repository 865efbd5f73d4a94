/** What was done, or has failed, in a line that goes away. */
import { html } from '../lib.js';
import { store } from '../store.js';

const SHOWN_MS = 6000;
const said = store([]);
let number = 0;

export function say(text, kind = 'done') {
  const id = ++number;
  said.set([...said.get().slice(-2), { id, text, kind }]);
  setTimeout(() => said.set(said.get().filter((each) => each.id !== id)), SHOWN_MS);
}

/** Do something for a reader, and say how it went. Returns whether it went well. */
export async function attempt(act, done) {
  try {
    const result = await act();
    say(typeof done === 'function' ? done(result) : done);
    return true;
  } catch (error) {
    say(error.message, 'failed');
    return false;
  }
}

export function Toasts() {
  const toasts = said.use();
  return html`<div class="toasts" role="status" aria-live="polite">
    ${toasts.map((each) => html`<p key=${each.id} class="toast is-${each.kind}">${each.text}</p>`)}
  </div>`;
}
