package target

import (
	"fmt"
	"strings"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Away puts a distance between the server and everybody who uses it from now on:
// each answer comes later by a round trip. On the loopback interface an S3 server
// answers in less time than a real one needs for its first packet, so that what blobd
// adds to a request is told out of all proportion. It lasts as long as this process.
func (m *S3) Away(roundTrip time.Duration) error {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := toxiproxy.NewProxy(server, m.Name, "127.0.0.1:0", m.Addr)
	toxic := fmt.Sprintf(`{"type":"latency","stream":"downstream","attributes":{"latency":%d}}`, roundTrip.Milliseconds())
	if _, err := p.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		return fmt.Errorf("a distance of %s: %w", roundTrip, err)
	}
	if err := p.Start(); err != nil {
		return fmt.Errorf("a distance of %s: %w", roundTrip, err)
	}
	m.Addr = p.Listen
	return m.connect()
}
