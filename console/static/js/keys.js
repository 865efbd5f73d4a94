/** Single keys, and `g` with a letter. Not while one writes, nor in a dialog. */
import { useLayoutEffect, useRef } from './lib.js';
import { keysOn } from './preferences.js';
import { go } from './route.js';

const PLACES = {
  o: 'overview', f: 'flow', q: 'queues', e: 'exchanges', c: 'connections', s: 'shards', i: 'incidents', p: 'policies',
  u: 'users',
};
const PAIR_MS = 1500;
const handlers = new Map();
let begun = -Infinity;

/** Call a function at a key, while the component is shown; the newest component has it. */
export function useKey(key, act) {
  const newest = useRef(act);
  newest.current = act;
  useLayoutEffect(() => {
    const call = () => newest.current();
    handlers.set(key, [...(handlers.get(key) ?? []), call]);
    return () => handlers.set(key, handlers.get(key).filter((each) => each !== call));
  }, [key]);
}

function isWriting(target) {
  return target.closest?.('input, textarea, select, [contenteditable]');
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !keysOn.get()) return;
  if (event.key === 'Escape' && isWriting(event.target)) event.target.blur();
  if (isWriting(event.target) || document.querySelector('dialog[open]')) return;
  if (event.timeStamp - begun < PAIR_MS && PLACES[event.key]) {
    begun = -Infinity;
    go(PLACES[event.key]);
    event.preventDefault();
    return;
  }
  begun = event.key === 'g' ? event.timeStamp : -Infinity;
  const act = handlers.get(event.key)?.at(-1);
  if (!act) return;
  act();
  event.preventDefault();
}

addEventListener('keydown', pressed);
