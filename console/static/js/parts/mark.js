/** States as shape and colour: nobody has to tell colours apart. */
import { html } from '../lib.js';

const SHAPES = {
  flowing: html`<circle cx="8" cy="8" r="4.5" class="mark-fill" />`,
  near: html`<path d="M8 2.2 14.4 13.6H1.6z" class="mark-fill" />`,
  held: html`<rect x="2.5" y="2.5" width="11" height="11" rx="1.5" class="mark-fill" />`,
  'by-hand': html`<path d="M4 8.5V4.2a1 1 0 0 1 2 0V3a1 1 0 0 1 2 0v-.3a1 1 0 0 1 2 0v1a1 1 0 0 1 2 0v5.8c0 3-1.6 4.8-4 4.8-2 0-3-.9-4-2.6L1.9 9a1 1 0 0 1 1.5-1.2z" class="mark-fill" />`,
  spills: html`<circle cx="8" cy="8" r="4.5" class="mark-line" />`,
  cause: html`<path d="M8 1.2 14.8 8 8 14.8 1.2 8z" class="mark-fill" /><path d="M8 4.5v4.2M8 10.3v1.4" class="mark-cut" />`,
};
const WORDS = {
  flowing: 'flows', near: 'near its limit', held: 'held', 'by-hand': 'stopped by hand', spills: 'spills to disk',
  cause: 'is the cause',
};

export function stateWord(state) {
  return WORDS[state] ?? state;
}

/** The shape alone, within an SVG. */
export function shape(state) {
  return SHAPES[state] ?? SHAPES.flowing;
}

/** A state's shape; `word` adds the word for those who do not see it. */
export function Mark({ state, word = true }) {
  return html`<span class="mark is-${state}">
    <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">${shape(state)}</svg>
    ${word && html`<span class="unseen">${stateWord(state)}</span>`}
  </span>`;
}

export function Badge({ state, children }) {
  return html`<span class="badge is-${state}"><${Mark} state=${state} word=${false} />${children ?? stateWord(state)}</span>`;
}
