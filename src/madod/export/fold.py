"""A traced graph rid of what ONNX does not know, and of what depends on no picture and so need not be computed."""

import operator
from typing import Any

import torch
from torch import Tensor, fx

aten = torch.ops.aten
Known = dict[fx.Node, Any]
"""The values of nodes that depend on no input."""


def fold(traced: fx.GraphModule) -> fx.GraphModule:
    """Rewrite a graph in place, for any number of pictures, and return it."""
    known = constants(traced)
    for node in list(traced.graph.nodes):
        if node.target == operator.getitem and is_whole(node.args[0]):
            node.replace_all_uses_with(node.args[0].args[0])
        elif node not in known:
            with traced.graph.inserting_before(node):
                if node.target == aten.linalg_solve_triangular.default and node.args[0] in known:
                    node.replace_all_uses_with(product(traced, known[node.args[0]], node.args[1], **node.kwargs))
                elif node.target == aten.cdist.default:
                    node.replace_all_uses_with(distances(traced.graph, *node.args[:2]))
    for node, value in known.items():
        if worth_storing(node, known):
            with traced.graph.inserting_before(node):
                node.replace_all_uses_with(stored(traced, value), delete_user_cb=lambda user: user not in known)
    traced.graph.eliminate_dead_code()
    traced.recompile()
    return traced


def constants(traced: fx.GraphModule) -> Known:
    """Return the values of all nodes that depend on stored tensors alone."""
    known: Known = {}
    for node in traced.graph.nodes:
        if node.op == "get_attr":
            known[node] = operator.attrgetter(node.target)(traced).detach().clone()  # what follows may work in place
        elif node.op == "call_function" and node.all_input_nodes and known.keys() >= set(node.all_input_nodes):
            args, kwargs = fx.node.map_arg((node.args, node.kwargs), known.__getitem__)
            known[node] = node.target(*args, **kwargs)
    return known


def product(traced: fx.GraphModule, triangle: Tensor, right: fx.Node, *, upper: bool) -> fx.Node:
    """L^-1 b, for which ONNX has no function, as (b' L^-1')'.

    ONNX Runtime before 1.26 makes one of a product and a transposition in it, and cannot compute that in float64: so
    b's own is taken away, and the other comes behind.
    """
    inverse = torch.linalg.solve_triangular(triangle, torch.eye(len(triangle)).to(triangle), upper=upper)
    call, turn = traced.graph.call_function, aten.mT.default
    turned = right.args[0] if right.target == turn else call(turn, (right,))
    return call(turn, (call(aten.matmul.default, (turned, stored(traced, inverse.mT))),))


def distances(graph: fx.Graph, ones: fx.Node, others: fx.Node) -> fx.Node:
    """||a_i - b_j|| (n, m), for which ONNX has no function, from all differences."""
    gaps = graph.call_function(aten.sub.Tensor, (graph.call_function(aten.unsqueeze.default, (ones, 1)), others))
    return graph.call_function(aten.linalg_vector_norm.default, (gaps, 2, [-1]))


def is_whole(node: fx.Node) -> bool:
    """Whether a node cuts a tensor into a single block; taken for the whole, it holds for any number of pictures."""
    return node.target == aten.split.Tensor and len(node.meta["val"]) == 1


def worth_storing(node: fx.Node, known: Known) -> bool:
    """Whether pictures meet a computed constant that takes no more bytes than the tensors that it is made of."""
    live = any(user not in known for user in node.users)
    if node.op == "get_attr" or not live or not isinstance(known[node], Tensor):
        return False
    seen, waiting = set(), [node]
    while waiting:
        following = waiting.pop()
        waiting += [each for each in following.all_input_nodes if each not in seen]
        seen.add(following)
    return known[node].nbytes <= sum(known[each].nbytes for each in seen if each.op == "get_attr")


def stored(traced: fx.GraphModule, value: Tensor) -> fx.Node:
    """Store a tensor with the graph and return the node that reads it."""
    name = f"folded_{sum(name.startswith('folded_') for name, _ in traced.named_buffers())}"
    traced.register_buffer(name, value.contiguous().clone())
    return traced.graph.get_attr(name)
