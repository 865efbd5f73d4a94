/** Tables of many rows: only those in view are in the page. Columns: those of `Table`, with {sort, size}. */
import { count, plural } from '../format.js';
import { useKey } from '../keys.js';
import { html, useEffect, useLayoutEffect, useRef, useState } from '../lib.js';
import { Empty, Skeleton, Trouble } from './panel.js';
import { useGuard } from './settled.js';
import { classes, headOf } from './table.js';

const SPARE = 6;
const narrow = matchMedia('(max-width: 639px)');
const ROW = { wide: 36, narrow: 64 };

/** `listing` from `usePages`; `sort`: {column, reverse}; `onSort(column)`. */
export function Grid({ label, noun, listing, columns, sort, onSort, empty }) {
  const [guarded, guard] = useGuard();
  const scroller = useRef();
  const height = useRowHeight();
  const [window_, watch] = useWindow(scroller, height);
  listing.guarded = guarded && listing.count !== undefined;
  useEffect(() => listing.show(window_.first, window_.last));
  useKey('.', () => resort(listing));
  useRowKeys(scroller, height);
  if (listing.count === undefined) return listing.error ? html`<${Trouble} error=${listing.error} />` : html`<${Skeleton} />`;
  return html`<div class=${listing.error ? 'stale' : ''}>
    ${listing.error && html`<${Trouble} error=${listing.error} at=${listing.at} />`}
    <${Count} listing=${listing} noun=${noun} />
    <div class="grid-scroll" ref=${scroller} onScroll=${watch} tabindex="0" role="group" aria-label=${label} ...${guard}>
      <div class="grid" role="table" aria-label=${label} aria-rowcount=${listing.count + 1}
        style=${{ '--columns': columns.map((each) => each.size ?? '1fr').join(' ') }}>
        <${Head} columns=${columns} sort=${sort} onSort=${onSort} />
        ${listing.count === 0 ? html`<${Empty}>${empty}<//>` : html`<${Body} ...${{ listing, columns, window_, height }} />`}
      </div>
    </div>
  </div>`;
}

function Head({ columns, sort, onSort }) {
  return html`<div role="rowgroup"><div class="grid-head" role="row" aria-rowindex="1">
    ${columns.map((column) => {
      const chosen = column.sort && sort?.column === column.sort;
      const order = chosen ? (sort.reverse ? 'descending' : 'ascending') : undefined;
      return html`<div role="columnheader" class=${classes(column)} aria-sort=${order}>
        ${column.sort && onSort
          ? html`<button type="button" class="plain sort ${order ?? ''}" onClick=${() => onSort(column.sort)}>${column.label}</button>`
          : headOf(column)}
      </div>`;
    })}
  </div></div>`;
}

function Body({ listing, columns, window_, height }) {
  const rows = [];
  for (let index = window_.first; index <= Math.min(window_.last, listing.count - 1); index += 1) {
    rows.push(html`<${Row} key=${index} index=${index} row=${listing.rows[index]} columns=${columns} top=${index * height} />`);
  }
  return html`<div class="grid-body" role="rowgroup" style=${{ height: `${listing.count * height}px` }}>${rows}</div>`;
}

function Row({ index, row, columns, top }) {
  return html`<div class="grid-row" role="row" aria-rowindex=${index + 2} data-row=${index} style=${{ top: `${top}px` }}>
    ${row
      ? columns.map((column) => html`<div role="cell" class=${classes(column)} data-label=${column.label}>${column.cell(row)}</div>`)
      : html`<div role="cell" class="waiting"></div>`}
  </div>`;
}

function Count({ listing, noun }) {
  const part = `${listing.count === listing.total ? '' : `${count(listing.count)} of `}${plural(listing.total, noun)}`;
  return html`<p class="grid-foot" aria-live="polite">${part}
    ${listing.changed && html`<button type="button" class="plain" onClick=${() => resort(listing)}>
      The order has changed: press <kbd>.</kbd></button>`}
  </p>`;
}

function resort(listing) {
  listing.guarded = false;
  listing.changed = false;
  listing.turn();
}

function useRowHeight() {
  const [isNarrow, setNarrow] = useState(narrow.matches);
  useEffect(() => {
    const note = () => setNarrow(narrow.matches);
    narrow.addEventListener('change', note);
    return () => narrow.removeEventListener('change', note);
  }, []);
  return isNarrow ? ROW.narrow : ROW.wide;
}

/** The rows in view, and the function to call when that may have changed. */
function useWindow(scroller, height) {
  const [found, setFound] = useState({ first: 0, last: 40 });
  const watch = () => {
    const { scrollTop, clientHeight } = scroller.current ?? { scrollTop: 0, clientHeight: 800 };
    const first = Math.max(0, Math.floor(scrollTop / height) - SPARE);
    const last = Math.ceil((scrollTop + clientHeight) / height) + SPARE;
    if (first !== found.first || last !== found.last) setFound({ first, last });
  };
  useLayoutEffect(watch);
  return [found, watch];
}

/** j and k go through the rows' links. */
function useRowKeys(scroller, height) {
  const move = (step) => {
    const at = document.activeElement?.closest?.('.grid-row');
    const next = at && scroller.current?.contains(at) ? Number(at.dataset.row) + step : 0;
    const focus = () => scroller.current?.querySelector(`[data-row="${next}"] a`)?.focus({ preventScroll: true });
    if (next < 0 || !scroller.current) return;
    const { scrollTop, clientHeight } = scroller.current;
    if (next * height < scrollTop) scroller.current.scrollTop = next * height;
    else if ((next + 2) * height > scrollTop + clientHeight) scroller.current.scrollTop = (next + 2) * height - clientHeight;
    requestAnimationFrame(focus);
  };
  useKey('j', () => move(1));
  useKey('k', () => move(-1));
}
