/** When the node was last heard. */
import { store } from './store.js';

export const heard = store(Date.now());
