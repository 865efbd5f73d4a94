/** A gate in a channel, half let down. */
import { html } from '../lib.js';

export function Logo() {
  return html`<svg class="logo" viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">
    <path class="logo-water" d="M3 21c3-2.4 6-2.4 9 0s6 2.4 9 0 5-2.4 8-.5V27a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2z" />
    <path class="logo-post" d="M6 4v16M26 4v16M4 4h24" />
    <rect class="logo-gate" x="9" y="7" width="14" height="9" rx="1.5" />
    <path class="logo-post" d="M16 3v4" />
  </svg>`;
}
