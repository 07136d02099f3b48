--[[
UniSched's job_submit plugin for Slurm 24.11 to 26.05 (slurm.conf: JobSubmitPlugins=lua; file: /etc/slurm/job_submit.lua).

A new batch job that carries UniSched's token in its comment gets a begin time a few minutes ahead, so that Slurm does not
start it before the daemon has seen it. The daemon then decides when it starts, by moving that time. A begin time passes
by itself: without the daemon the job starts DELAY seconds late, as a plain job.

What it does is written to admin_comment as unisched-begin=<epoch>, by which the daemon tells this delay from a begin
time that the user asked for. It refuses no job and changes no job without the token. Whatever goes wrong in here, the
submission goes on as if this file were not there.

A component of a heterogeneous job cannot be told from a plain job here; it is delayed too, and the daemon, which does
not manage such jobs, takes the delay away.

Sites with a job_submit.lua of their own: call unisched_delay(job_desc) from it, with pcall.
--]]

local DELAY = 180                          -- seconds; the file below overrides it, 0 switches the delay off
local DELAY_FILE = "/etc/slurm/unisched-delay"
local MAX_DELAY = 86400

-- Read once, when slurmctld loads this script (again after it changes, or with scontrol reconfigure).
pcall(function()
	local f = io.open(DELAY_FILE, "r")
	if f == nil then return end
	local n = tonumber((f:read("*l")))
	f:close()
	if n ~= nil and n >= 0 and n <= MAX_DELAY then DELAY = math.floor(n) end
end)

-- Slurm's "not set" values. Lua 5.1 numbers are doubles, which hold 2^64-2 only rounded, so large means unset.
local function unset_time(t)
	return t == nil or t <= 0 or t >= 4294967294
end

-- Whether a comment holds the token: unisched: at a word boundary, or a JSON member "unisched".
local function has_token(comment)
	if comment == nil or comment == "" then return false end
	return string.find(" " .. comment, "[^%w_]unisched:") ~= nil or string.find(comment, '"unisched"%s*:') ~= nil
end

-- Delays the job if it is one of ours. Returns the begin time set, or nil and why there is none.
function unisched_delay(job_desc)
	if DELAY == 0 then return nil, "delay is off" end
	if not has_token(job_desc.comment) then return nil, "no token" end
	if job_desc.script == nil or job_desc.script == "" then return nil, "not a batch job" end
	if job_desc.priority == 0 then return nil, "held" end
	-- Slurm ends a job at once whose begin time and time limit together pass its --deadline. The daemon does not manage such jobs. Slurm 24.11 does not show that option
	-- here (seen); in the script it can be found, on the command line it cannot: there the daemon takes the delay off when it sees the job.
	if not unset_time(job_desc.deadline) or string.find("\n" .. job_desc.script, "\n#SBATCH[^\n]*%-%-deadline") ~= nil then
		return nil, "has a --deadline"
	end
	local begin = os.time() + DELAY
	local wanted = job_desc.begin_time
	if not unset_time(wanted) and wanted >= begin then return nil, "begins later by itself" end
	local mark = string.format("unisched-begin=%d", begin)
	local old = job_desc.admin_comment
	if old ~= nil and old ~= "" then mark = old .. " " .. mark end
	-- The mark comes first: a mark without a delay is harmless, a delay without its mark would look like the user's.
	job_desc.admin_comment = mark
	job_desc.begin_time = begin
	return begin
end

function slurm_job_submit(job_desc, part_list, submit_uid)
	local ok, begin, why = pcall(unisched_delay, job_desc)
	pcall(function()
		if not ok then
			slurm.log_info("unisched: uid " .. tostring(submit_uid) .. ": submission left alone: " .. (tostring(begin):gsub("%%", "%%%%")))
		elseif begin ~= nil then
			slurm.log_info("unisched: uid " .. tostring(submit_uid) .. ": new job waits for the plan until " .. tostring(begin))
		elseif why ~= "no token" then
			slurm.log_info("unisched: uid " .. tostring(submit_uid) .. ": submission left alone: " .. why)
		end
	end)
	return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
	return slurm.SUCCESS
end

return slurm.SUCCESS
