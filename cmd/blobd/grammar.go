package main

import "time"

// grammar is the command line. A flag that is also a setting wins over the
// environment and the file.
type grammar struct {
	Config    string        `help:"YAML file with settings." type:"path" placeholder:"FILE"`
	DataDir   string        `help:"The data folder (default: blobd-data)." type:"path" placeholder:"DIR"`
	Server    string        `help:"The server that client commands talk to (default: http://127.0.0.1:8080)." placeholder:"URL"`
	TokenFile string        `help:"File with the token of client commands; else BLOBD_TOKEN, else the admin.token of the data folder." type:"path" placeholder:"FILE"`
	Tenant    string        `help:"Tenant to act for, where an admin token knows several." placeholder:"ID"`
	RetryFor  time.Duration `help:"How long a client command repeats what is safe to repeat while nobody answers; 0: once." default:"3s" placeholder:"DURATION"`
	JSON      bool          `name:"json" help:"Print one JSON value instead of text."`

	Serve serveCmd `cmd:"" help:"Run the service."`
	Demo  demoCmd  `cmd:"" help:"Show put, resolve, null and erase on a throw-away service."`

	Put      putCmd      `cmd:"" help:"Keep one text of an execution."`
	Capture  captureCmd  `cmd:"" help:"Keep the reasoning of one model call."`
	Resolve  resolveCmd  `cmd:"" help:"Get the exact bytes behind a ref, or the definitive null."`
	Read     readCmd     `cmd:"" help:"Read an execution's reasoning, on record."`
	Policy   policyCmd   `cmd:"" help:"Show, simulate and set retention policies."`
	Sweep    sweepCmd    `cmd:"" help:"Erase what is past its maximum; or follow a sweep, or list what is left."`
	Erase    eraseCmd    `cmd:"" help:"Erase an execution, refs of one, a person, a class or the tenant: preview, request, approve, deny, cancel, follow."`
	Clock    clockCmd    `cmd:"" help:"Show and move the due dates of erasures."`
	Time     timeCmd     `cmd:"" help:"Show the ledger's own clock, and confirm it where it may have jumped."`
	Hold     holdCmd     `cmd:"" help:"Place, list and release holds."`
	Restrict restrictCmd `cmd:"" help:"Place, list and lift restrictions of processing."`
	Suppress suppressCmd `cmd:"" help:"Have puts that name a person refused."`
	Explain  explainCmd  `cmd:"" help:"Say what keeps a blob, until when, and what happens next."`
	Report   reportCmd   `cmd:"" help:"Get a report: erasures, retention, holds or sweeps."`
	Webhook  webhookCmd  `cmd:"" help:"Have other systems told of erasures, holds, restrictions and sweeps."`

	Token     tokenCmd  `cmd:"" help:"Create, list and revoke tokens."`
	TenantCmd tenantCmd `cmd:"" name:"tenant" help:"Create, list and off-board tenants."`

	Verify     verifyCmd     `cmd:"" help:"Check a stopped data folder: does every live row open?"`
	Doctor     doctorCmd     `cmd:"" help:"Examine the configured store before trust is placed in it."`
	Keys       keysCmd       `cmd:"" help:"Run key epochs on a stopped data folder, or show them."`
	Backup     backupCmd     `cmd:"" help:"Check what backups of the ledger could open."`
	Evidence   evidenceCmd   `cmd:"" help:"Verify certificates and log exports offline; export the log."`
	Migrate    migrateCmd    `cmd:"" help:"Migrate a shared ledger, or compare its schema with this program's."`
	ConfigTool configToolCmd `cmd:"" name:"config" help:"Check the configuration."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
}
