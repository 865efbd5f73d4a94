/** Small pictures for the menu and the bar, of one stroke. */
import { html } from '../lib.js';

const PATHS = {
  overview: 'M3 9.5 10 4l7 5.5V16H3zM8 16v-4h4v4',
  flow: 'M3 5h5a3 3 0 0 1 3 3v4a3 3 0 0 0 3 3h3M14.5 12.5 17 15l-2.5 2.5M3 15h3',
  queues: 'M3 5h14M3 10h14M3 15h9',
  exchanges: 'M4 7h11l-3-3M16 13H5l3 3',
  connections: 'M7 13 13 7M8.5 6.5l2-2a3.5 3.5 0 0 1 5 5l-2 2M11.5 13.5l-2 2a3.5 3.5 0 0 1-5-5l2-2',
  shards: 'M4 4h5v5H4zM11 4h5v5h-5zM4 11h5v5H4zM11 11h5v5h-5z',
  incidents: 'M10 3.5 17.5 16h-15zM10 8.5v3.5M10 13.800v.4',
  policies: 'M5 3h7l3 3v11H5zM8 9h4M8 12h4',
  users: 'M10 9.5a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM4 16.5c.5-3 3-4.5 6-4.5s5.5 1.5 6 4.5',
  definitions: 'M7 4C4.5 4 6 9 3.5 10 6 11 4.5 16 7 16M13 4c2.5 0 1 5 3.5 6-2.5 1-1 6-3.5 6',
  pipeline: 'M3 16V9M8 16V5M13 16v-5M17 16V7',
  more: 'M4 10h.1M10 10h.1M16 10h.1',
  keys: 'M2.5 5.5h15v9h-15zM6 8.5h.1M10 8.5h.1M14 8.5h.1M6.5 11.5h7',
  out: 'M8 4H4v12h4M12 6.5 15.5 10 12 13.5M15 10H8',
  auto: 'M10 3.5a6.5 6.5 0 1 0 0 13zM10 3.5a6.5 6.5 0 0 1 0 13',
  light: 'M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18M4.300 4.300l1 1M14.700 14.700l1 1M4.300 15.700l1-1M14.700 5.300l1-1',
  dark: 'M16 12A6.5 6.5 0 0 1 8 4a6.5 6.5 0 1 0 8 8z',
};

export function icon(name) {
  return html`<svg class="icon-line" viewBox="0 0 20 20" width="20" height="20" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;
}
