/** When the node was last lastAnswer. */
import { store } from './store.js';

export const lastAnswer = store(Date.now());
