--[[
Reports for which lock the owner of a hold waits, as its client has published it: of a hold whose
hash the node of the lock could not read.

KEYS[1]  the hash of a client, "relock_waits:{<client id>}"
ARGV[1]  the id of a caller that asks for beats: see waits_read.lua; or ""
ARGV[2]  the field of the hold: see publish_waits.lua

Returns  { the value of that field, the beat, "<client id> <client name>" }; empty if its owner does
         not wait
]]
--+ waits_read.lua
return { read_wait(KEYS[1], ARGV[2]) }
