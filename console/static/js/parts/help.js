/** The keys. */
import { html } from '../lib.js';
import { keysOn, setKeys } from '../preferences.js';
import { Dialog } from './dialog.js';
import { Mark, stateWord } from './mark.js';

const KEYS = [
  ['g o', 'Overview'], ['g f', 'Flow'], ['g q', 'Queues'], ['g c', 'Connections'], ['g i', 'Incidents'],
  ['g e, s, p, u', 'Exchanges, Shards, Policies, Users'], ['/', 'Find'], ['j k', 'Down and up a list'], ['Enter', 'Open'],
  ['s', 'Stop producers'], ['.', 'Sort anew'], ['p', 'Pause the graph'], ['Esc', 'Close, leave a field'], ['?', 'This'],
];
const STATES = ['flowing', 'near', 'held', 'by-hand', 'spills', 'cause'];

export function Help({ close }) {
  const on = keysOn.use();
  return html`<${Dialog} title="Keys and signs" close=${close}>
    <dl class="keys">${KEYS.map(([key, text]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${text}</dd></div>`)}</dl>
    <p class="signs">${STATES.map((state) => html`<span><${Mark} state=${state} word=${false} /> ${stateWord(state)}</span>`)}</p>
    <label class="check"><input type="checkbox" checked=${on} onChange=${(event) => setKeys(event.target.checked)} /> Single keys are on</label>
  <//>`;
}
