package estimator

import (
	"encoding/json"
	"testing"
)

// FuzzJob reads what the daemon stored of a job, which began as text that the job wrote.
func FuzzJob(f *testing.F) {
	f.Add([]byte(`{"requested":[4,4],"samples":[{"shape":[1],"iter_time_s":0.5},{"shape":[2],"iter_time_s":0.51}],"stop":{"kind":"iterations","iterations":100}}`))
	f.Add([]byte(`{"requested":[1],"curve":[{"iter":1,"value":0.3},{"iter":2,"value":0.4},{"iter":3,"value":0.45},{"iter":4,"value":0.47},{"iter":5,"value":0.49}],"stop":{"kind":"metric","up":true,"target":0.6,"max":50}}`))
	f.Add([]byte(`{"requested":[-1,99999999],"samples":[{"shape":[],"iter_time_s":-1}],"limit_s":1e300,"resumes":[{"gpus":1,"nodes":1,"seconds":1e5,"bytes":1e17}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var j Job
		if len(b) > 1<<16 || json.Unmarshal(b, &j) != nil {
			return
		}
		fab := Fabric{}.Learn(Outcome{Key: "k", Job: j, NewResumes: j.Resumes}, now)
		e := fab.Estimate(j, now)
		if msg := sound(e); msg != "" {
			t.Fatalf("%s: %+v", msg, e)
		}
		if d, ok := DurationOf(e, e.Speeds[0].Shape); ok {
			if i := d.Interval(); !(i.Low <= i.Mid && i.Mid <= i.High) {
				t.Fatalf("duration %+v", i)
			}
		}
	})
}
