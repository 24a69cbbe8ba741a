"""A LightningModule under the DDP strategy, one device in each of the members."""

import json
import os
import sys

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset


class Regression(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 1)

    def training_step(self, batch, number):
        x, y = batch
        loss = torch.nn.functional.binary_cross_entropy_with_logits(self.layer(x)[:, 0], y)
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def on_train_epoch_end(self) -> None:
        loss = round(float(self.trainer.callback_metrics["loss"]), 4)
        if self.trainer.is_global_zero:
            print(json.dumps({"epoch": self.current_epoch + 1, "loss": loss}), flush=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.05)


lightning.seed_everything(0)
inputs = torch.randn(1024, 16)
data = TensorDataset(inputs, (inputs.sum(1) > 0).float())
trainer = lightning.Trainer(
    accelerator="auto",
    strategy="ddp",
    devices=1,
    num_nodes=int(os.environ["GROUP_WORLD_SIZE"]),
    max_epochs=3,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Regression(), DataLoader(data, batch_size=64))
print(f"rank {trainer.global_rank} of {trainer.world_size}", flush=True)
trainer.strategy.barrier()
sys.stdout.flush()
# This torch now and then aborts while the interpreter shuts down, after all work is done.
os._exit(0)
