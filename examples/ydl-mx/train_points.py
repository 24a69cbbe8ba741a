"""A script of MXNet's own kind: options by argparse, a kvstore by name. It knows nothing of Dromon.

ydl-mx --on local --n 2 --s 1 train_points.py --kv-store dist_sync --model-prefix points
"""

import argparse

import mxnet as mx

parser = argparse.ArgumentParser()
parser.add_argument("--kv-store", default="local")
parser.add_argument("--num-epochs", type=int, default=5)
parser.add_argument("--model-prefix")
args = parser.parse_args()

store = mx.kv.create(args.kv_store)
print(f"worker {store.rank} of {store.num_workers}", flush=True)

mx.random.seed(0)
points = mx.nd.random.normal(shape=(1024, 8))
sides = mx.nd.sum(points, axis=1) > 0
mine = slice(store.rank, None, store.num_workers)
batches = mx.io.NDArrayIter(
    points[mine].asnumpy(), sides[mine].asnumpy(), batch_size=64, label_name="softmax_label"
)

net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2)
module = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"))
module.fit(
    batches,
    kvstore=store,
    num_epoch=args.num_epochs,
    optimizer_params={"learning_rate": 0.5},
    initializer=mx.init.Zero(),
    eval_metric="acc",
)
accuracy = dict(module.score(batches, "acc"))["accuracy"]
print(f"worker {store.rank} accuracy {accuracy:.3f}", flush=True)
if args.model_prefix and store.rank == 0:
    module.save_checkpoint(args.model_prefix, args.num_epochs)
