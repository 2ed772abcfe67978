# The images that rai's own jobs run in, and those in place of a course's that are gone.
# All comes from Debian's package sources and from PyPI; of the project only the pins and
# image/ are copied in, and a little of project/ for `course`.
#
#   docker build --target cpu -t rai:cpu .
#   docker build --target gpu -t rai:gpu .                      for driver 580 and newer
#   docker build --target gpu --build-arg CUDA=12 -t rai:gpu .  for older ones, and sm_70
#   docker build --target full -t rai:full .                    and with cuDNN
#
# Where no registry is reached, image/make-base makes the base; docs/images.md says more.
ARG BASE=debian:bookworm-slim

# Python, g++, make and GNU time. What only developers of GCC and binutils use goes again.
FROM ${BASE} AS tools
ENV LANG=C.UTF-8
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        g++ \
        make \
        python-is-python3 \
        python3 \
        time \
    && rm -f /usr/bin/*lto-dump* /usr/bin/*-dwp /usr/bin/*gp-* /usr/bin/*gprofng* \
        /usr/lib/gcc/*/*/lib?san.a \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old \
        /var/log/apt /var/log/dpkg.log /var/log/alternatives.log /var/lib/dpkg/*-old
WORKDIR /build

# And Debian's NumPy with OpenBLAS, without which it multiplies twenty times slower.
FROM tools AS cpu
LABEL org.opencontainers.image.title="rai cpu" \
      org.opencontainers.image.description="Python, NumPy, g++, make and GNU time" \
      org.opencontainers.image.licenses="MIT"
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        libopenblas0-pthread \
        python3-numpy \
    && find /usr/lib/python3/dist-packages/numpy -depth -type d -name tests \
        -exec rm -rf {} + \
    && rm -rf /usr/lib/python3.*/dist-packages/numpy \
        /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old \
        /var/log/apt /var/log/dpkg.log /var/log/alternatives.log /var/lib/dpkg/*-old \
    && python -c 'import numpy; numpy.ones((9, 9)) @ numpy.ones(9)'

# MXNet and NumPy from PyPI, in a virtual environment.
FROM tools AS python
ENV PATH=/opt/venv/bin:${PATH} \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        python3-dev \
        python3-venv \
    && python3 -m venv /opt/venv \
    && pip uninstall -y -q setuptools \
    && ln -s "$(cd /opt/venv && echo lib/python3.*/site-packages)" /opt/venv/site-packages
COPY image/requirements/python.txt /requirements/
RUN pip install --no-deps --require-hashes -r /requirements/python.txt
# The NumPy of Python 3.12 has no np.bool, which was a name of Python's own.
RUN python -c 'import sys; sys.exit(sys.version_info >= (3, 12))' \
    || find /opt/venv/site-packages/mxnet -name '*.py' \
        -exec sed -i -E 's/\b(np|_np|onp)\.bool\b/bool/' {} +

# CUDA: the base's own toolkit where it has one, else NVIDIA's wheels, with the folders
# and links that a toolkit has.
FROM python AS cuda
ARG CUDA=13
COPY image/requirements/cuda${CUDA}.txt /requirements/cuda.txt
RUN if [ ! -x /usr/local/cuda/bin/nvcc ]; then \
        pip install --no-deps --require-hashes -r /requirements/cuda.txt \
        && cd /opt/venv/site-packages/nvidia \
        && toolkit=$PWD/cu${CUDA} \
        && mkdir -p "$toolkit/lib" \
        && for folder in cuda_*/include cuda_*/lib; do \
               [ ! -d "$folder" ] || cp -rs "$PWD/$folder" "$toolkit/"; \
           done \
        && for library in "$toolkit"/lib/lib*.so.*; do \
               ln -s "${library##*/}" "${library%%.so.*}.so"; \
           done \
        && ln -s lib "$toolkit/lib64" \
        && ln -s "$toolkit" /usr/local/cuda; \
    fi

# PyCUDA, compiled against that CUDA. The driver's library comes with the GPU: the linker
# gets an empty one of its name, and is told to ask for it though nothing is found in it.
FROM cuda AS pycuda
COPY image/requirements/build.txt image/requirements/pycuda.txt /requirements/
RUN mkdir /tmp/driver \
    && g++ -shared -Wl,-soname,libcuda.so.1 -o /tmp/driver/libcuda.so -x c++ /dev/null \
    && echo "CUDA_ROOT = '/usr/local/cuda'" >/root/.aksetup-defaults.py \
    && echo "CUDADRV_LIB_DIR = ['/tmp/driver']" >>/root/.aksetup-defaults.py \
    && echo "CUDA_ENABLE_CURAND = False" >>/root/.aksetup-defaults.py \
    && pip install --no-deps --require-hashes --target /opt/build \
        -r /requirements/build.txt \
    && PATH=/usr/local/cuda/bin:${PATH} PYTHONPATH=/opt/build LDFLAGS=-Wl,--no-as-needed \
        pip install --no-deps --no-build-isolation --require-hashes \
        -r /requirements/pycuda.txt \
    && readelf -d /opt/venv/site-packages/pycuda/_driver.*.so | grep -q libcuda.so.1
# What no job uses goes: a library for makers of compilers, a second NVRTC, the one for
# CUPTI's counters of the hardware, and tests. Of what Python compiles, the image keeps what it loads.
RUN cd /opt/venv/site-packages \
    && pip uninstall -y -q pip \
    && find . -depth -type d \( -name tests -o -name __pycache__ \) -exec rm -rf {} + \
    && rm -rf nvidia/cu*/.metadata nvidia/cu13/lib/libnvvm.* nvidia/cu*/lib/*.alt.* \
        nvidia/cu*/lib/libnvperf_host.*

# nvprof, which CUDA has no longer, for the CUPTI that is there; a base's toolkit may lack it.
FROM cuda AS nvprof
COPY image/nvprof /nvprof
RUN mkdir /opt/made \
    && if [ -e /usr/local/cuda/include/cupti.h ] || [ -e /usr/local/cuda/extras/CUPTI ]; then \
        make -C /nvprof install BUILD=/tmp/nvprof DESTDIR=/opt/made PYTHON=/usr/bin/python3; \
    else \
        echo "The toolkit has no CUPTI: nvprof is left out."; \
    fi

# What a job needs of all that, and nothing that only the building needed.
FROM tools AS gpu
ARG CUDA=13
ARG NUMPY=1.23.5
LABEL org.opencontainers.image.title="rai gpu" \
      org.opencontainers.image.description="CUDA, nvprof, PyCUDA, MXNet, NumPy, g++, make and GNU time" \
      org.opencontainers.image.licenses="MIT" \
      rai.cuda="${CUDA_VERSION:-${CUDA}}" \
      rai.mxnet="1.9.1" \
      rai.numpy="${NUMPY}" \
      rai.pycuda="2026.1"
ENV PATH=/opt/venv/bin:/usr/local/cuda/bin:${PATH}
COPY --from=pycuda /opt/venv /opt/venv
COPY --from=nvprof /opt/made /
RUN { [ -e /usr/local/cuda ] || ln -s /opt/venv/site-packages/nvidia/cu${CUDA} /usr/local/cuda; } \
    && echo /usr/local/cuda/lib64 >/etc/ld.so.conf.d/cuda.conf \
    && ldconfig \
    && python -c 'import mxnet, numpy, pycuda; assert numpy.__version__ == "'${NUMPY}'"'

FROM python AS cudnn
ARG CUDA=13
COPY image/requirements/cudnn${CUDA}.txt /requirements/cudnn.txt
# Of cuBLAS only what cuDNN loads stays, and nothing of cuDNN that convolutions do without.
RUN pip install --no-deps --no-compile --require-hashes --target /opt/cudnn \
        -r /requirements/cudnn.txt \
    && cd /opt/cudnn \
    && rm -rf include nvidia/cudnn/include nvidia/cudnn/lib/libcudnn_adv.so.* \
    && find nvidia/cu* -type f ! -path 'nvidia/cudnn/*' ! -name 'libcublasLt.so.*' -delete

# And cuDNN, where the loader finds it.
FROM gpu AS full
ARG CUDA=13
LABEL org.opencontainers.image.title="rai full" \
      org.opencontainers.image.description="CUDA, cuDNN, nvprof, PyCUDA, MXNet, NumPy, g++, make and GNU time" \
      rai.cudnn="9"
COPY --from=cudnn /opt/cudnn /opt/venv/site-packages/
RUN ls -d /opt/venv/site-packages/nvidia/cu*/lib >/etc/ld.so.conf.d/cudnn.conf \
    && ldconfig \
    && python -c 'import cudnn; assert cudnn.backend_version() > 90000' \
    && python -c 'import ctypes; ctypes.CDLL("libcublasLt.so.'${CUDA}'")'

# The course's MXNet projects of 2017 to 2019, unchanged: the models, and the images if the
# build sees them; a job may also bring them as data files.
FROM gpu AS course-models
COPY image/course/models.py /
COPY project/course /project/course
COPY project/models/*.params /project/models/
COPY image/course/Makefile data/fashion-mnis[t]/t10k-*.gz /fashion-mnist/
RUN PYTHONPATH=/project python /models.py /project/models /models && rm /fashion-mnist/Makefile

# And /mxnet, where a project's operator is made, with all that is made of our own sources.
FROM gpu AS course
LABEL org.opencontainers.image.title="rai course" \
      org.opencontainers.image.description="What MXNet projects of ECE408 expect, 2017 to 2019"
ENV PATH=/mxnet/bin:${PATH} \
    PYTHONPATH=/mxnet/python \
    MXNET_SRC_ROOT=/mxnet
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3-lib2to3 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old \
        /var/log/apt /var/log/dpkg.log /var/lib/dpkg/*-old
COPY image/course /mxnet
COPY project/cpp/operator.cpp project/cpp/forward.h /mxnet/
COPY project/cuda/network /mxnet/cuda/network
COPY project/course /mxnet/own/course
COPY project/host/mxnet_package.py /mxnet/own/host/
COPY --from=course-models /models /models
COPY --from=course-models /fashion-mnist /fashion-mnist
RUN make -C /mxnet parts

# The course's Mini-DNN editions, of 2020 to 2025: what their projects' lines find in it is
# written anew, and stands at the course's paths. docs/images.md says more.
FROM python AS minidnn-tools
COPY image/requirements/minidnn.txt /requirements/
RUN pip install --no-deps --no-compile --require-hashes --target /opt/found \
        -r /requirements/minidnn.txt \
    && mkdir -p /opt/made/bin /opt/made/cmake/bin /opt/made/cmake/share/cmake-3.31 \
    && cd /opt/found/cmake/data \
    && mv bin/cmake /opt/made/cmake/bin/ \
    && mv share/cmake-3.31/Modules share/cmake-3.31/Templates /opt/made/cmake/share/cmake-3.31/ \
    && cd /opt/found/nvidia/cu13 \
    && mkdir /opt/made/sanitizer \
    && mv bin lib /opt/made/sanitizer/ \
    && ln -sf ../bin/libsanitizer-collection.so /opt/made/sanitizer/lib/ \
    && ln -s ../cmake/bin/cmake ../sanitizer/bin/compute-sanitizer /opt/made/bin/

FROM gpu AS minidnn
LABEL org.opencontainers.image.title="rai minidnn" \
      org.opencontainers.image.description="The course's Mini-DNN on CUDA, CMake, compute-sanitizer, nvprof, g++"
# After all that is there: a base's own tools come first. CMake finds CUDA by the others.
ENV PATH=${PATH}:/ece408/bin \
    CPATH=/usr/local/cuda/include \
    LIBRARY_PATH=/usr/local/cuda/lib64
COPY --from=minidnn-tools /opt/made /ece408
COPY image/minidnn /ece408/project
RUN cd /ece408/project \
    && g++ -O3 -o /ece408/bin/fmnist-86 fmnist-86.cc data.cc \
    && mkdir -p build src/layer/custom \
    && mv weights-86.bin build/ \
    && mv instead /ece408/bin/ \
    && for tool in nsys ncu nv-nsight-cu-cli cuda-memcheck; do \
           ln -s instead /ece408/bin/$tool; \
       done \
    && cmake --version && compute-sanitizer --version
# Programs of 2025 link cuBLAS, which most do not call: an empty archive does for them.
RUN [ -e /usr/local/cuda/lib64/libcublas.so ] || ar rc /usr/local/cuda/lib64/libcublas.a
