package main

import "github.com/blobd/blobd/api/wire"

// sample is the reasoning of one made-up model call.
type sample struct {
	agent, step, provider, model string
	parts                        []samplePart
}

type samplePart struct{ kind, text string }

// call is the sample as a runtime would capture it.
func (s sample) call() wire.CaptureRequest {
	c := wire.CaptureRequest{StepID: s.step, Provider: s.provider, Model: s.model}
	for _, p := range s.parts {
		r := wire.Reasoning{Kind: p.kind, Provider: s.provider}
		if p.text != "" {
			t := wire.TextOf([]byte(p.text))
			r.Text = &t
		}
		c.Reasoning = append(c.Reasoning, r)
	}
	return c
}

// samples are the model calls of the demo.
func samples() []sample {
	return []sample{
		{"support-agent", "turn:1:model", "anthropic", "demo-model", []samplePart{
			{"text", "The customer says the parcel arrived on Tuesday with a torn corner, and asks for a new lamp, not for money. " +
				"The order is nine days old, so the fourteen days for exchanges have not passed. The stock list shows three lamps in grey and none in green; " +
				"she bought green. I should not promise green. Offer grey now or green when it is back, and let her choose."},
			{"redacted", ""},
			{"text", "One more thing: she mentions that her mother signed for the parcel. That is a second person in this case. " +
				"I do not need the name to solve it, so I leave it out of the note."},
		}},
		{"coding-agent", "turn:4:model", "deepseek", "demo-coder", []samplePart{
			{"text", "The test fails only when it runs after the cache test. Both write to the same folder, and the cleanup runs at the end of the " +
				"process, not of the test.\n\n1. Give each test a folder of its own.\n2. Remove the global.\n3. Run the pair in both orders → then all of them with -race.\n\n" +
				"I was about to add a retry. That would hide the fault: no retry."},
		}},
		{"research-agent", "turn:2:model", "openai", "demo-reasoner", []samplePart{
			{"summary", "**Weighing the sources** I compare two reports on the river's level; one counts from the old gauge. " +
				"After correcting by 31 cm they agree, so I cite the newer one and mention the offset."},
		}},
	}
}
