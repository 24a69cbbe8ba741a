"""DistributedDataParallel over Gloo, or NCCL where there are GPUs."""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

on_gpu = torch.cuda.is_available()
dist.init_process_group("nccl" if on_gpu else "gloo")
rank, size = dist.get_rank(), dist.get_world_size()
local = int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", local % torch.cuda.device_count()) if on_gpu else torch.device("cpu")
print(f"rank {rank} of {size}, local {local} of {os.environ['LOCAL_WORLD_SIZE']}", flush=True)

torch.manual_seed(0)
inputs = torch.randn(2048, 16)
labels = (inputs.sum(1) > 0).float()
inputs, labels = inputs[rank::size].to(device), labels[rank::size].to(device)
net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
model = DistributedDataParallel(net.to(device))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(1, 6):
    for _ in range(10):
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(inputs)[:, 0], labels)
        loss.backward()
        optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    if rank == 0:
        print(json.dumps({"epoch": epoch, "loss": round(mean.item() / size, 4)}), flush=True)

if rank == 0:
    os.makedirs("model", exist_ok=True)
    torch.save(net.state_dict(), "model/net.pt")
dist.barrier()
dist.destroy_process_group()
sys.stdout.flush()
# This torch now and then aborts while the interpreter shuts down, after all work is done.
os._exit(0)
