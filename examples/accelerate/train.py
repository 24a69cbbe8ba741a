"""Accelerate prepares model, optimizer and data for however many processes there are."""

import json
import os
import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator()
rank, size = accelerator.process_index, accelerator.num_processes
os.write(1, f"rank {rank} of {size}\n".encode())

torch.manual_seed(0)
inputs = torch.randn(1024, 16)
labels = (inputs.sum(1) > 0).float()
model = torch.nn.Linear(16, 1)
model, optimizer, loader = accelerator.prepare(
    model,
    torch.optim.Adam(model.parameters(), lr=0.05),
    DataLoader(TensorDataset(inputs, labels), batch_size=64),
)
for epoch in range(1, 4):
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x)[:, 0], y)
        accelerator.backward(loss)
        optimizer.step()
    mean = accelerator.gather(loss.detach().reshape(1)).mean().item()
    if accelerator.is_main_process:
        print(json.dumps({"epoch": epoch, "loss": round(mean, 4)}), flush=True)

accelerator.wait_for_everyone()
accelerator.end_training()
sys.stdout.flush()
# This torch now and then aborts while the interpreter shuts down, after all work is done.
os._exit(0)
