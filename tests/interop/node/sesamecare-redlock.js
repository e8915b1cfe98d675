"use strict";
const { Redlock, ExecutionError } = require("@sesamecare-oss/redlock");

exports.connect = require("./player-redlock.js").like(Redlock, ExecutionError);
