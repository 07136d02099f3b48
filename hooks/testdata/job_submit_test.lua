-- Unit tests of job_submit.lua: lua5.1 testdata/job_submit_test.lua job_submit.lua [expected delay]
local path, delay = arg[1], tonumber(arg[2] or "180")
local NO_VAL64 = 18446744073709551614
local log = {}
slurm = { SUCCESS = 0, ERROR = -1, NO_VAL = 4294967294, NO_VAL64 = NO_VAL64, log_info = function(s) log[#log + 1] = s end }
local NOW = 1764435600
os.time = function() return NOW end
assert(dofile(path) == slurm.SUCCESS)

local failed = 0
local function check(name, job, want_begin, want_comment)
	log = {}
	local rc = slurm_job_submit(job, {}, 1000)
	local got = { pcall(function() return job.begin_time, job.admin_comment end) }
	if rc ~= slurm.SUCCESS or got[2] ~= want_begin or got[3] ~= want_comment or #log > 1 then
		failed = failed + 1
		print(string.format("%s: rc %s, begin_time %s (want %s), admin_comment %s (want %s), %d log lines", name, tostring(rc),
			tostring(got[2]), tostring(want_begin), tostring(got[3]), tostring(want_comment), #log))
	end
end

local due = NOW + delay
local mark = "unisched-begin=" .. due
local function job(t)
	if t.script == nil then t.script = "#!/bin/bash\n" end
	if t.priority == nil then t.priority = slurm.NO_VAL end
	return t
end

local T = "unisched:class=besteffort,ckpt=USR1"
check("begin_time 0", job { comment = T, begin_time = 0 }, due, mark)
check("begin_time nil", job { comment = T }, due, mark)
check("begin_time NO_VAL64", job { comment = T, begin_time = NO_VAL64 }, due, mark)
check("begin_time NO_VAL", job { comment = T, begin_time = slurm.NO_VAL }, due, mark)
check("begin_time soon", job { comment = T, begin_time = NOW + 10 }, due, mark)
check("begin_time later", job { comment = T, begin_time = due + 1 }, due + 1, nil)
check("admin_comment kept", job { comment = T, admin_comment = "x=1" }, due, "x=1 " .. mark)
check("among foreign text", job { comment = "run 3; " .. T .. " more" }, due, mark)
check("after a comma", job { comment = "a," .. T }, due, mark)
check("JSON", job { comment = '{"a":1,"unisched" : {"class":"strict"}}' }, due, mark)
check("no comment", job {}, nil, nil)
check("empty comment", job { comment = "", begin_time = 0 }, 0, nil)
check("other word", job { comment = "myunisched:x=1 unisched x", begin_time = 0 }, 0, nil)
check("held", job { comment = T, begin_time = 0, priority = 0 }, 0, nil)
check("deadline of Slurm's", job { comment = T, begin_time = 0, deadline = NOW + 3600 }, 0, nil)
check("none of Slurm's", job { comment = T, begin_time = 0, deadline = 0 }, due, mark)
check("deadline in the script", job { comment = T, begin_time = 0, script = "#!/bin/bash\n#SBATCH -n1 --deadline=now+1hour\n" }, 0, nil)
check("deadline in its own comment", job { comment = T, begin_time = 0, script = "#!/bin/bash\n#SBATCH --comment=unisched:deadline=now+1h\n# --deadline\n" }, due, mark)
check("interactive", job { comment = T, begin_time = 0, script = "" }, 0, nil)
check("no number", job { comment = T, begin_time = "soon" }, "soon", nil)
check("hostile text", job { comment = T .. "%s%n\0\255%d" }, due, mark)

-- A job_desc that throws at every access, as a changed Slurm might.
local evil = setmetatable({}, { __index = function(_, k) error("no field %s " .. k) end })
log = {}
if slurm_job_submit(evil, {}, 1000) ~= slurm.SUCCESS or #log ~= 1 then
	failed = failed + 1
	print("a throwing job_desc fails the submission, or is not logged once")
end
slurm.log_info = function() error("log") end
if slurm_job_submit(job { comment = T }, {}, 1000) ~= slurm.SUCCESS then
	failed = failed + 1
	print("a throwing log fails the submission")
end
if slurm_job_modify({}, {}, {}, 1000) ~= slurm.SUCCESS then
	failed = failed + 1
	print("slurm_job_modify refuses")
end
if failed > 0 then os.exit(1) end
