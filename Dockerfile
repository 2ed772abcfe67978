# The images that rai's own jobs run in. Everything comes from the base's own package
# sources, and nothing of the project is copied in: an edit of it rebuilds nothing.
#
#   docker build --target cpu -t rai:cpu .
#
# Where no registry is reached, image/make-base makes the base.
ARG BASE=debian:bookworm-slim

# Python with NumPy and OpenBLAS, g++, make and GNU time.
FROM ${BASE} AS cpu
LABEL org.opencontainers.image.title="rai cpu" \
      org.opencontainers.image.description="Python, NumPy, g++, make and GNU time" \
      org.opencontainers.image.licenses="MIT"
ENV LANG=C.UTF-8
# OpenBLAS, without which NumPy multiplies matrices twenty times slower. What only
# developers of GCC, binutils and NumPy use goes again: a sixth.
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        g++ \
        libopenblas0-pthread \
        make \
        python-is-python3 \
        python3 \
        python3-numpy \
        time \
    && rm -f /usr/bin/*lto-dump* /usr/bin/*-dwp /usr/bin/*gp-* /usr/bin/*gprofng* \
        /usr/lib/gcc/*/*/lib?san.a \
    && find /usr/lib/python3/dist-packages/numpy -depth -type d -name tests \
        -exec rm -rf {} + \
    && rm -rf /usr/lib/python3.*/dist-packages/numpy \
        /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old \
        /var/log/apt /var/log/dpkg.log /var/log/alternatives.log /var/lib/dpkg/*-old \
    && python -c 'import numpy; numpy.ones((9, 9)) @ numpy.ones(9)'
WORKDIR /build
