/** Rows keep their places while one points at them or has the focus among them: nothing moves under a click. */
import { useEffect, useRef, useState } from '../lib.js';

/** Rows in the order that was seen, with new values; `changed` says that the true order is another. */
export function useSettled(rows, rowKey) {
  const order = useRef(null);
  const [guarded, guard] = useGuard();
  if (!guarded || !order.current) {
    order.current = rows.map(rowKey);
    return { rows, changed: false, guard, resort: () => {} };
  }
  const byKey = new Map(rows.map((row) => [rowKey(row), row]));
  const kept = order.current.filter((key) => byKey.has(key));
  const known = new Set(kept);
  const added = rows.filter((row) => !known.has(rowKey(row)));
  const shown = [...kept.map((key) => byKey.get(key)), ...added];
  const changed = shown.some((row, index) => row !== rows[index]);
  order.current = shown.map(rowKey);
  return { rows: shown, changed, guard, resort: () => { order.current = null; } };
}

/** Whether a pointer or the focus is in an element, and the handlers that tell. */
export function useGuard() {
  const [pointed, setPointed] = useState(false);
  const [focused, setFocused] = useState(false);
  const mounted = useRef(true);
  useEffect(() => () => { mounted.current = false; }, []);
  const guard = {
    onPointerEnter: (event) => event.pointerType === 'mouse' && setPointed(true),
    onPointerLeave: () => setPointed(false),
    onFocusIn: (event) => setFocused(event.target !== event.currentTarget),
    onFocusOut: (event) => !event.currentTarget.contains(event.relatedTarget) && mounted.current && setFocused(false),
  };
  return [pointed || focused, guard];
}
