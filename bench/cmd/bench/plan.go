package main

import (
	"context"
	"slices"

	"github.com/blobd/blobd/bench/load"
	"github.com/blobd/blobd/bench/report"
	"github.com/blobd/blobd/bench/target"
)

// prepareRead is how servers make a client's reading operation: what it reads
// is the same in every cell.
type prepareRead func(ctx context.Context, client int, c load.Client) (load.Op, error)

// plan lists the cells: for each number of clients and operation the floor
// first, then each blobd, then its peers.
func (b *bench) plan() {
	for _, clients := range b.cfg.clients {
		b.planPuts(clients)
		b.planReads(clients)
		b.planBatch(clients)
	}
}

func (b *bench) planPuts(clients int) {
	if !b.cfg.does(opPut) && !b.cfg.does(opPutNew) {
		return
	}
	s, g := b.servers, group{}
	if s.floor != nil {
		g.floor = &planned{Cell: named(opPut, serverFloor, clients), process: s.floor.Process, prepare: s.floor.Put}
	}
	for _, i := range s.blobds {
		if b.cfg.does(opPut) {
			g.add(i, &planned{Cell: named(opPut, i.Name, clients), process: i.Process, blobd: i.Blobd, prepare: i.Put})
		}
		if b.cfg.does(opPutNew) {
			g.add(i, &planned{Cell: named(opPutNew, i.Name, clients), process: i.Process, blobd: i.Blobd, prepare: i.PutNew})
		}
	}
	for _, p := range s.peers {
		g.peers = append(g.peers, &planned{Cell: named(opPut, p.Name, clients), process: p.Process, prepare: p.Put})
	}
	b.add(g)
}

func (b *bench) planReads(clients int) {
	if !b.cfg.does(opGet) && !b.cfg.does(opGetNoCache) {
		return
	}
	s, g := b.servers, group{}
	if s.floor != nil {
		g.floor = &planned{Cell: named(opGet, serverFloor, clients), process: s.floor.Process, prepare: unseeded(s.floor.Get)}
	}
	for _, i := range s.blobds {
		if b.cfg.does(opGet) {
			g.add(i, reading(named(opGet, i.Name, clients), i.Blobd))
		}
		if i.noCache != nil {
			g.add(i, reading(named(opGetNoCache, i.Name, clients), i.noCache))
		}
	}
	for _, p := range s.peers {
		g.peers = append(g.peers, &planned{Cell: named(opGet, p.Name, clients), process: p.Process, prepare: unseeded(p.Get)})
	}
	b.add(g)
}

func (b *bench) planBatch(clients int) {
	if !b.cfg.does(opBatch) {
		return
	}
	s, g := b.servers, group{}
	if s.floor != nil {
		g.floor = &planned{Cell: named(opBatch, serverFloor, clients), process: s.floor.Process, prepare: unseeded(s.floor.Batch)}
	}
	for _, i := range s.blobds {
		g.add(i, &planned{Cell: named(opBatch, i.Name, clients), process: i.Process, blobd: i.Blobd, prepare: unseeded(i.Batch)})
	}
	b.add(g)
}

func named(op, server string, clients int) *report.Cell {
	return &report.Cell{Op: op, Server: server, Clients: clients}
}

func reading(cell *report.Cell, blobd *target.Blobd) *planned {
	return &planned{Cell: cell, process: blobd.Process, blobd: blobd, prepare: unseeded(blobd.Get)}
}

func unseeded(prepare prepareRead) func(context.Context, uint64, int, load.Client) (load.Op, error) {
	return func(ctx context.Context, _ uint64, client int, c load.Client) (load.Op, error) {
		return prepare(ctx, client, c)
	}
}

// group is one operation by one number of clients on every server.
type group struct {
	floor  *planned // nil if there is none
	blobds []*planned
	names  []string // of each blobd's peer
	peers  []*planned
}

func (g *group) add(i instance, p *planned) {
	g.blobds = append(g.blobds, p)
	g.names = append(g.names, i.peer)
}

// add takes in a group, floor first; each blobd is compared with the floor and
// with its peer.
func (b *bench) add(g group) {
	cells := slices.Concat(g.blobds, g.peers)
	if g.floor != nil {
		cells = slices.Insert(cells, 0, g.floor)
	}
	for _, c := range cells {
		b.cells = append(b.cells, c)
		b.report.Cells = append(b.report.Cells, c.Cell)
	}
	for i, c := range g.blobds {
		peer := slices.IndexFunc(g.peers, func(p *planned) bool { return p.Server == g.names[i] })
		if peer < 0 {
			c.Against(cellOf(g.floor), nil)
			continue
		}
		c.Against(cellOf(g.floor), g.peers[peer].Cell)
	}
}

func cellOf(p *planned) *report.Cell {
	if p == nil {
		return nil
	}
	return p.Cell
}
