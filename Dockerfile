# blobd as one static program in an image that holds nothing else.
#
#   docker build -t blobd .
#   docker run -v blobd:/data -p 127.0.0.1:8080:8080 -e BLOBD_LISTEN=0.0.0.0:8080 blobd

FROM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# The same flags as `make build`. Without the .git folder no version is stamped.
ENV CGO_ENABLED=0
RUN go build -trimpath -buildvcs=false -ldflags '-s -w' -o /out/bin/blobd ./cmd/blobd && \
    go build -trimpath -buildvcs=false -ldflags '-s -w' -o /out/bin/ready ./deploy/ready
# The data folder belongs to the user of the image, and so does a volume that is
# mounted over it for the first time.
RUN mkdir -m 0700 /out/data

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/bin/ /bin/
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
ENV BLOBD_DATA_DIR=/data
VOLUME /data
EXPOSE 8080
# Not ready is unhealthy: a store, a ledger or a key service is away.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 CMD ["/bin/ready", "http://127.0.0.1:8080/readyz"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/bin/blobd"]
CMD ["serve"]
