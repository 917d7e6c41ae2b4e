"""What a request may ask for; whatever asks for more is refused in a sentence, and memory stays bounded."""

from dataclasses import dataclass, field

from madod.data.threads import cores

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """Bounds of one request, and of all that are under way together."""

    images: int = 256
    """Pictures in a request."""
    image_bytes: int = 32 * MIB
    """Bytes of one picture."""
    body_bytes: int = 64 * MIB
    """Bytes of a request's body."""
    pixels: int = 50_000_000
    """Width times height of a picture."""
    head_bytes: int = 32 * 1024
    """Bytes of a request's head."""
    held_bytes: int = 256 * MIB
    """Bytes of all bodies in memory; beyond it they are read one at a time, and the others wait in their sockets."""
    connections: int = 1000
    """Open connections."""
    requests: int = 800
    """Requests for predictions under way; the next is asked to come back later."""
    patience: float = 10.0
    """Seconds in which a head must arrive and an answer be taken, and that a body may be silent or fall behind."""
    body_rate: float = 32 * 1024.0
    """Bytes a second at which a body is due."""
    room_seconds: float = 30.0
    """Seconds that a body waits for memory, while others hold it all, before its client is asked to come back."""
    decode_seconds: float = 10.0
    """Time to decode one picture."""
    decode_bytes: int = 2048 * MIB
    """Address space of a decoding process."""
    decoders: int = field(default_factory=lambda: max(1, cores() // 2))
    """Decoding processes; the other processors are left to the network."""
    health_seconds: float = 2.0
    """Time in which the server says whether it is well."""
    stalled_seconds: float = 30.0
    """Time without a picture coming through, though one waits, after which it is not."""
    batch: int = 64
    """Pictures in one pass of the network."""
    company: float = 0.002
    """Seconds that a picture waits for others to go with it."""
