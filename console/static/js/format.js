/** Numbers, sizes and times as texts. */

const WHOLE = new Intl.NumberFormat('en');
const SHORT = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
export const NONE = '–';

export function count(value) {
  return Number.isFinite(value) ? WHOLE.format(Math.round(value)) : NONE;
}

/** A number in little room: 12,345 is 12.3K. */
export function short(value) {
  if (!Number.isFinite(value)) return NONE;
  return Math.abs(value) < 10_000 ? WHOLE.format(Math.round(value)) : SHORT.format(value);
}

export function rate(value) {
  if (!Number.isFinite(value)) return NONE;
  return value > 0 && value < 10 ? `${value.toFixed(1)}/s` : `${short(value)}/s`;
}

export function bytes(value) {
  if (!Number.isFinite(value)) return NONE;
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit && Math.abs(value) < 100 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

export function percent(part, whole) {
  return whole > 0 && Number.isFinite(part) ? `${Math.round((100 * part) / whole)} %` : NONE;
}

/** A length of time: 2.3 ms, 0.3 s, 12 s, 9:56, 2 h 5 min, 3 d. */
export function seconds(value) {
  if (!Number.isFinite(value)) return NONE;
  if (value > 0 && value < 0.1) return `${(value * 1000).toFixed(1)} ms`;
  if (value < 10) return `${Math.max(value, 0).toFixed(1)} s`;
  if (value < 60) return `${Math.floor(value)} s`;
  const minutes = Math.floor(value / 60);
  if (minutes < 60) return `${minutes}:${String(Math.floor(value % 60)).padStart(2, '0')} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d`;
}

/** Milliseconds since 1970 of a time in the API: a number in seconds, ms or µs, or a text in ISO 8601. */
export function instant(value) {
  if (typeof value === 'string') return Date.parse(value);
  if (!Number.isFinite(value)) return NaN;
  if (value > 1e14) return value / 1000;
  return value > 1e11 ? value : value * 1000;
}

export function ago(value) {
  const past = (Date.now() - instant(value)) / 1000;
  return Number.isFinite(past) ? `${seconds(Math.max(past, 0))} ago` : NONE;
}

/** The time of day, with the date unless that is today. */
export function clock(value) {
  const at = new Date(instant(value));
  if (Number.isNaN(at.getTime())) return NONE;
  const time = at.toLocaleTimeString('en-GB');
  return at.toDateString() === new Date().toDateString() ? time : `${at.toLocaleDateString('en-CA')} ${time}`;
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}
