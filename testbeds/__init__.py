"""Real clusters on one machine, to try Dromon on and to test it with. No part of the product."""
