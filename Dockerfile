# rlminit and its demo. With Docker and nothing else:
#
#     docker build --target demo -t rlminit:demo .
#
# Stages:  build    compiles, on golang
#          rlminit  FROM scratch: the static binaries and rootfs/; for COPY --from in other images
#          demo     rlminit and the example gateway: no shell, no base
#          based    the same on a base image, --build-arg BASE=debian:bookworm-slim
#
# `make image` cuts the build stage and copies from dist/ instead, for the
# classic builder runs every stage above its target, and would pull golang.
# It rewrites `--from=build /out/` alone: keep to that form.

ARG BASE=debian:bookworm-slim

FROM golang:1.26-bookworm AS build
# BuildKit sets TARGETARCH; the classic builder builds for the engine's own.
ARG TARGETARCH
ARG VERSION=dev
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN make dist-tree ARCHS="${TARGETARCH:-$(go env GOARCH)}" VERSION="$VERSION" \
 && mv "dist/linux-${TARGETARCH:-$(go env GOARCH)}" /out

FROM scratch AS rlminit
COPY --from=build /out/rootfs/ /
COPY --chown=1000:1000 --from=build /out/data/ /data/
COPY --from=build /out/rlminit /usr/local/bin/rlminit
COPY --from=build /out/beside/ /usr/local/bin/
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["/usr/local/bin/rlminit", "health"]
ENTRYPOINT ["/usr/local/bin/rlminit", "init", "--"]

FROM rlminit AS demo
COPY --from=build /out/gateway /usr/local/bin/gateway

FROM ${BASE} AS based
# By hand, for a base may have useradd, adduser or neither. A second name for a
# uid that the base has already is harmless.
RUN { grep -q '^app:' /etc/group || echo 'app:x:1000:' >>/etc/group; } \
 && { grep -q '^app:' /etc/passwd || echo 'app:x:1000:1000:services:/data:/usr/sbin/nologin' >>/etc/passwd; } \
 && { grep -q '^rlminit:' /etc/group || echo 'rlminit:x:49999:' >>/etc/group; } \
 && { grep -q '^rlminit:' /etc/passwd || echo 'rlminit:x:49999:49999:the supervisor of rlminit:/:/sbin/nologin' >>/etc/passwd; }
COPY --from=build /out/rootfs/etc/rlminit/ /etc/rlminit/
COPY --chown=1000:1000 --from=build /out/data/ /data/
COPY --from=build /out/rlminit /usr/local/bin/rlminit
COPY --from=build /out/beside/ /usr/local/bin/
COPY --from=build /out/gateway /usr/local/bin/gateway
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["/usr/local/bin/rlminit", "health"]
ENTRYPOINT ["/usr/local/bin/rlminit", "init", "--"]
