/** Names are chosen by clients: characters that hide, reorder or break text are shown as escapes. */

const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

export function shown(name) {
  return String(name ?? '').replace(HIDDEN, (found) => `\\u${found.codePointAt(0).toString(16).padStart(4, '0')}`);
}

/** The name of an exchange; that of the default one is empty. */
export function exchangeShown(name) {
  return name === '' ? '(default)' : shown(name);
}

/** Percent-encode a name. */
export function encoded(name) {
  return encodeURIComponent(String(name).toWellFormed());
}

/** Decode a part of the page's address; text that is not encoded stands for itself. */
export function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
