package main

import (
	"context"

	"github.com/blobd/blobd/bench/load"
	"github.com/blobd/blobd/bench/report"
	"github.com/blobd/blobd/bench/target"
)

// prepareRead is how servers make a client's reading operation: what it reads
// is the same in every cell.
type prepareRead func(ctx context.Context, client int, c load.Client) (load.Op, error)

// plan lists the cells: for each number of clients and operation the floor
// first, then blobd, then MinIO.
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
	s, cells := b.servers, []*planned{}
	var floor, minio *planned
	if s.floor != nil {
		floor = &planned{Cell: named(opPut, serverFloor, clients), process: s.floor.Process, prepare: s.floor.Put}
		cells = append(cells, floor)
	}
	if s.blobd != nil && b.cfg.does(opPut) {
		cells = append(cells, &planned{Cell: named(opPut, serverBlobd, clients), process: s.blobd.Process, blobd: s.blobd, prepare: s.blobd.Put})
	}
	if s.blobd != nil && b.cfg.does(opPutNew) {
		cells = append(cells, &planned{Cell: named(opPutNew, serverBlobd, clients), process: s.blobd.Process, blobd: s.blobd, prepare: s.blobd.PutNew})
	}
	if s.minio != nil {
		minio = &planned{Cell: named(opPut, serverMinIO, clients), process: s.minio.Process, prepare: s.minio.Put}
		cells = append(cells, minio)
	}
	b.add(floor, minio, cells)
}

func (b *bench) planReads(clients int) {
	if !b.cfg.does(opGet) && !b.cfg.does(opGetNoCache) {
		return
	}
	s, cells := b.servers, []*planned{}
	var floor, minio *planned
	if s.floor != nil {
		floor = &planned{Cell: named(opGet, serverFloor, clients), process: s.floor.Process, prepare: unseeded(s.floor.Get)}
		cells = append(cells, floor)
	}
	if s.blobd != nil && b.cfg.does(opGet) {
		cells = append(cells, reading(named(opGet, serverBlobd, clients), s.blobd))
	}
	if s.noCache != nil {
		cells = append(cells, reading(named(opGetNoCache, serverBlobd, clients), s.noCache))
	}
	if s.minio != nil {
		minio = &planned{Cell: named(opGet, serverMinIO, clients), process: s.minio.Process, prepare: unseeded(s.minio.Get)}
		cells = append(cells, minio)
	}
	b.add(floor, minio, cells)
}

func (b *bench) planBatch(clients int) {
	if !b.cfg.does(opBatch) {
		return
	}
	s, cells := b.servers, []*planned{}
	var floor *planned
	if s.floor != nil {
		floor = &planned{Cell: named(opBatch, serverFloor, clients), process: s.floor.Process, prepare: unseeded(s.floor.Batch)}
		cells = append(cells, floor)
	}
	if s.blobd != nil {
		cells = append(cells, &planned{Cell: named(opBatch, serverBlobd, clients), process: s.blobd.Process, blobd: s.blobd, prepare: unseeded(s.blobd.Batch)})
	}
	b.add(floor, nil, cells)
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

// add compares blobd's cells with the floor's and MinIO's, which may be nil.
func (b *bench) add(floor, minio *planned, cells []*planned) {
	for _, c := range cells {
		if c.blobd != nil {
			c.Against(cellOf(floor), cellOf(minio))
		}
		b.cells = append(b.cells, c)
		b.report.Cells = append(b.report.Cells, c.Cell)
	}
}

func cellOf(p *planned) *report.Cell {
	if p == nil {
		return nil
	}
	return p.Cell
}
