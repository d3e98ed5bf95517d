# An image for learners, as JupyterHub's single-user server, and for graders: JupyterLab, nbgrader, bubblewrap, PyTorch for the CPU.
# It holds no solutions' notebooks and no tests. How to run it: docs/instructors.md, "In a container, and JupyterHub".
#
#   docker build --tag gapless .
FROM python:3.12-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap \
    && rm -rf /var/lib/apt/lists/*

# PyTorch's own index, as PyPI's torch for Linux brings the CUDA libraries along. The ranges are those of pyproject.toml.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN pip install --no-cache-dir --index-url "$TORCH_INDEX" "torch>=2.11,<2.16" "torchvision>=0.26,<0.30"

# The same major version as the hub's: docker build --build-arg JUPYTERHUB=">=4,<5" …
ARG JUPYTERHUB=">=5,<6"
COPY pyproject.toml README.md LICENSE /opt/gapless/
COPY src /opt/gapless/src
RUN pip install --no-cache-dir "/opt/gapless[lab,grading,cluster]" "jupyterhub$JUPYTERHUB" \
    && rm -rf /opt/gapless/src /opt/gapless/build
COPY notebooks /opt/gapless/notebooks

# The name and number that JupyterHub's spawners expect. Graders are nobody else: as root the kernel would count no processes.
RUN useradd --create-home --uid 1000 jovyan
USER jovyan
WORKDIR /home/jovyan
# One thread an operator, as many gradings run side by side; the virtual GPU where there is another kind too.
ENV OMP_NUM_THREADS=1 GAPLESS_DEVICE=vgpu:a10g
EXPOSE 8888
CMD ["jupyter", "lab", "--ip=0.0.0.0", "--no-browser"]
