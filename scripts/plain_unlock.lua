--[[
Frees the lock and publishes that, if no level is left; otherwise only checks that the hold still
exists. Never touches another owner's hold.

A user without the right to publish can still free the lock: nothing in this script may depend on
the message. Without RELOCK_ANNOUNCE_PLAIN there is no channel, and nothing is published.

KEYS[1]  the lock: a string, the token of the hold
ARGV[1]  token of the hold
ARGV[2]  hold count after this call
ARGV[3]  channel of the lock, "" if it has none
ARGV[4]  message that means "free"
ARGV[5]  entry in the line of the caller's client, if that waits for the lock again; else absent,
         or "" before ARGV[6]
ARGV[6]  in a cluster: SPUBLISH if the channel is sharded, else PUBLISH

Returns  1 if done, plus the number of receivers of the message;
         0 if the hold is gone, -1 if it is gone and another owner holds the lock,
         -2 if freed but the message could not be published.
         With ARGV[5], if freed: { that number, place in the line }: see line_tell.lua
]]
--+ plain_free.lua
local channel, message, publish = ARGV[3], ARGV[4], ARGV[6]
local me = ARGV[5] or ''
--+ lock_free.lua
return 1 + n_receivers
