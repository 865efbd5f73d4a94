/** Tables of few rows. Columns: {label, hidden, cell(row), right, wide, phone, kind}. */
import { html } from '../lib.js';
import { useSettled } from './settled.js';

export function Table({ label, columns, rows, rowKey, empty, row: extra }) {
  const settled = useSettled(rows, rowKey);
  if (!rows.length) return html`<p class="empty">${empty}</p>`;
  return html`<div class="scroll" tabindex="0" role="group" aria-label=${label} ...${settled.guard}>
    <table class="table">
      <thead><tr>${columns.map((column) => html`<th scope="col" class=${classes(column)}>${headOf(column)}</th>`)}</tr></thead>
      <tbody>
        ${settled.rows.map(
          (row) => html`<tr key=${rowKey(row)} ...${extra?.(row)}>
            ${columns.map((column) => html`<td class=${classes(column)} data-label=${column.label}>${column.cell(row)}</td>`)}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** A column of signs or buttons has a heading for those who do not see it. */
export function headOf(column) {
  return column.label || html`<span class="unseen">${column.hidden}</span>`;
}

export function classes(column) {
  return [column.right && 'right', column.wide && 'wide', column.kind, column.phone === false && 'no-phone'].filter(Boolean).join(' ');
}
