/** Preact with its hooks, and htm bound to it: what every component imports. */
import { h } from '../vendor/preact/preact.js';
import htm from '../vendor/htm/htm.js';

export { Fragment, render } from '../vendor/preact/preact.js';
export { useCallback, useEffect, useErrorBoundary, useLayoutEffect, useMemo, useReducer, useRef, useState } from '../vendor/preact/hooks.js';
export const html = htm.bind(h);
