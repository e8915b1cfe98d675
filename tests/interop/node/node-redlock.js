"use strict";
const { default: Redlock, ExecutionError } = require("redlock");

exports.connect = require("./player-redlock.js").like(Redlock, ExecutionError);
