// What NestJS complains of in this process: warnings and errors of its log, and rejections that nobody handles.
'use strict';

const complaints = [];

function complain(...words) {
  complaints.push(words.map((word) => word?.stack ?? String(word)).join(' '));
}

process.on('unhandledRejection', complain);

const logger = { log() {}, debug() {}, verbose() {}, warn: complain, error: complain, fatal: complain };

module.exports = { complaints, logger };
