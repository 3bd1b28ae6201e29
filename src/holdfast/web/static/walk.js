// The liars' walk: steps that the server proposes, until none that it tries hurts more, or somebody stops it.

import { post } from "./api.js";
import { number } from "./words.js";

const PAUSE = 110; // milliseconds between steps
const FAR = 0.25; // of the frame: how far a first step looks

export class Walk {
  constructor(on) {
    [this.on, this.turn] = [on, null];
  }

  stop() {
    this.turn = null;
    this.on.pressed(false);
  }

  async toggle() {
    if (this.turn) return this.stop();
    const turn = (this.turn = {});
    this.on.pressed(true);
    try {
      await this.steps(turn);
    } catch (error) {
      if (this.turn === turn) this.on.refuse(error.message);
    }
    if (this.turn === turn) this.stop();
  }

  async steps(turn) {
    for (let [step, reach] = [0, FAR]; this.turn === turn; ) {
      const round = this.on.round();
      if (!round) throw new Error("A walk needs a liar and a rule; add them first.");
      const found = await post("/api/walk", { ...round, step, reach });
      if (this.turn !== turn) return;
      if (this.on.same(round)) {
        [step, reach] = [step + 1, found.reach];
        this.on.moved(found.points);
        if (found.over) return this.on.told(`The liars stopped after ${step} steps: the answer is ${number(found.harm)} from the honest mean, and no step that was tried takes it farther within the frame.`);
      } else reach = FAR; // another round or rule meanwhile: look far again, from there
      await new Promise((done) => setTimeout(done, PAUSE));
    }
  }
}
