# One image for scheduler, workers, notebook and client: what they run is the container's command.
#
#   docker build --tag streamhalf .
#   docker run streamhalf dask scheduler --preload streamhalf.report.dashboard
#   docker run streamhalf dask worker tcp://SCHEDULER:8786 --nthreads 1 --memory-limit 4GiB
#   docker run --publish 8888:8888 streamhalf jupyter lab --ip 0.0.0.0
#   docker run streamhalf streamhalf fit s3://BUCKET/rows.zarr --scheduler tcp://SCHEDULER:8786
#
# configs/deploy/kubernetes.yaml uses it; scripts/check_image runs its commands in a clean folder.
FROM python:3.11-slim

# tasks are the parallelism: a worker's BLAS must not add threads of its own
ENV OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1

WORKDIR /opt/streamhalf
COPY pyproject.toml README.md LICENSE ./
COPY scripts/constraints.txt scripts/
COPY streamhalf streamhalf
RUN python -m pip install --constraint scripts/constraints.txt ".[object-storage,report,notebook,sklearn]"
RUN streamhalf --version && dask --version

RUN useradd --create-home streamhalf
USER streamhalf
WORKDIR /home/streamhalf
EXPOSE 8786 8787 8888
CMD ["streamhalf", "--help"]
