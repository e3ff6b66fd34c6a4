package evidence

import (
	"context"
	"errors"
	"fmt"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// logPrefix is where copies of the log's checkpoints lie, beside the journal's
// records: names that no record has. A checkpoint counts as published once every
// place holds a copy; only the newest copies are kept.
const logPrefix = backends.JournalPrefix + "log/"

func checkpointName(size int64) string { return fmt.Sprintf("%s%016x", logPrefix, size) }

// publishCheckpoint copies a checkpoint to every place. Another one of the same
// size there is ErrCorrupt: names are written once. It is repeatable.
func (j *Journal) publishCheckpoint(ctx context.Context, c Checkpoint) error {
	name := checkpointName(c.Size)
	for _, p := range j.places {
		if err := p.Put(ctx, name, c.Note); err != nil {
			return fmt.Errorf("evidence: publish the checkpoint of %d: %w", c.Size, err)
		}
	}
	for _, p := range j.places {
		if err := dropOlder(ctx, p, name); err != nil {
			return fmt.Errorf("evidence: drop old checkpoints: %w", err)
		}
	}
	return nil
}

// dropOlder deletes the copies before name. What the store refuses to delete
// stays and does no harm.
func dropOlder(ctx context.Context, place backends.Store, name string) error {
	page, err := place.List(ctx, logPrefix, "", listPage)
	if err != nil {
		return err
	}
	var older []string
	for _, o := range page {
		if o.Name < name {
			older = append(older, o.Name)
		}
	}
	if len(older) == 0 {
		return nil
	}
	_, err = place.Erase(ctx, backends.Scope{Names: older})
	return err
}

// newestTries bounds how often a copy may vanish between its listing and its
// reading, because another node published a newer one.
const newestTries = 5

// published returns the newest copy in each place, nil where there is none.
func (j *Journal) published(ctx context.Context) ([][]byte, error) {
	copies := make([][]byte, len(j.places))
	for i, p := range j.places {
		var err error
		if copies[i], err = newestCopy(ctx, p); err != nil {
			return nil, fmt.Errorf("evidence: read what was published: %w", err)
		}
	}
	return copies, nil
}

func newestCopy(ctx context.Context, place backends.Store) ([]byte, error) {
	for range newestTries {
		name, err := newestName(ctx, place)
		if err != nil || name == "" {
			return nil, err
		}
		body, err := place.Get(ctx, name)
		if !errors.Is(err, blobd.ErrNotFound) {
			return body, err
		}
	}
	return nil, fmt.Errorf("copies vanish: %w", blobd.ErrUnavailable)
}

func newestName(ctx context.Context, place backends.Store) (string, error) {
	for name := ""; ; {
		page, err := place.List(ctx, logPrefix, name, listPage)
		if err != nil {
			return "", err
		}
		if len(page) > 0 {
			name = page[len(page)-1].Name
		}
		if len(page) < listPage {
			return name, nil
		}
	}
}
